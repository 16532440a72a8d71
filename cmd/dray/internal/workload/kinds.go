// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

// kind has the paths of pod templates in objects of a kind.
type kind struct {
	// parts has the pod templates. A "*" in a path stands for each element of a list, or each value
	// of a map.
	parts []place
	// names returns the names of pods. If it is nil, they have generated suffixes.
	names func(c *Controller, p *Part, index int) string
	// perNode says that there is one pod for each eligible node.
	perNode bool
	// revision says that a ReplicaSet is between the object and its pods.
	revision bool
}

// place is a pod template, or several similar ones, with its number of replicas.
type place struct {
	template string
	// replicas are paths of numbers that are multiplied. A missing number counts as 1.
	replicas []string
	// atMost is the path of a number that bounds the product, such as completions of a Job.
	atMost string
	// name is the path of the part's name in the object. If it does not begin with a dot, it is the
	// name itself.
	name string
}

var replicated = place{template: "spec.template", replicas: []string{"spec.replicas"}}

var jobPlace = place{template: "spec.template", replicas: []string{"spec.parallelism"}, atMost: "spec.completions"}

// kinds has the known kinds by "Kind.group".
var kinds = map[string]kind{
	"Deployment.apps":                          {parts: []place{replicated}, revision: true},
	"ReplicaSet.apps":                          {parts: []place{replicated}},
	"ReplicationController":                    {parts: []place{replicated}},
	"StatefulSet.apps":                         {parts: []place{replicated}, names: ordinalName},
	"DaemonSet.apps":                           {parts: []place{{template: "spec.template"}}, perNode: true},
	"Job.batch":                                {parts: []place{jobPlace}, names: jobName},
	"CronJob.batch":                            {parts: []place{below("spec.jobTemplate", jobPlace)}},
	"JobSet.jobset.x-k8s.io":                   {parts: []place{jobSetPlace}, names: jobSetName},
	"LeaderWorkerSet.leaderworkerset.x-k8s.io": {parts: leaderWorkerPlaces, names: indexedName},
	"MPIJob.kubeflow.org":                      {parts: []place{replicaSpecs("spec.mpiReplicaSpecs")}, names: lowerPartName},
	"PyTorchJob.kubeflow.org":                  {parts: []place{replicaSpecs("spec.pytorchReplicaSpecs")}, names: lowerPartName},
	"TFJob.kubeflow.org":                       {parts: []place{replicaSpecs("spec.tfReplicaSpecs")}, names: lowerPartName},
	"XGBoostJob.kubeflow.org":                  {parts: []place{replicaSpecs("spec.xgbReplicaSpecs")}, names: lowerPartName},
	"PaddleJob.kubeflow.org":                   {parts: []place{replicaSpecs("spec.paddleReplicaSpecs")}, names: lowerPartName},
	"JAXJob.kubeflow.org":                      {parts: []place{replicaSpecs("spec.jaxReplicaSpecs")}, names: lowerPartName},
	"RayCluster.ray.io":                        {parts: rayPlaces("spec")},
	"RayJob.ray.io":                            {parts: rayPlaces("spec.rayClusterSpec")},
	"RayService.ray.io":                        {parts: rayPlaces("spec.rayClusterConfig")},
	"Job.batch.volcano.sh":                     {parts: []place{{template: "spec.tasks.*.template", replicas: []string{"spec.tasks.*.replicas"}, name: ".spec.tasks.*.name"}}, names: lowerPartName},
	"Rollout.argoproj.io":                      {parts: []place{replicated}, revision: true},
	"CloneSet.apps.kruise.io":                  {parts: []place{replicated}},
	"StatefulSet.apps.kruise.io":               {parts: []place{replicated}, names: ordinalName},
}

// other is for objects of unknown kinds.
var other = kind{parts: []place{replicated}}

var jobSetPlace = place{
	template: "spec.replicatedJobs.*.template.spec.template",
	replicas: []string{"spec.replicatedJobs.*.replicas", "spec.replicatedJobs.*.template.spec.parallelism"},
	name:     ".spec.replicatedJobs.*.name",
}

var leaderWorkerPlaces = []place{
	{template: "spec.leaderWorkerTemplate.leaderTemplate", replicas: []string{"spec.replicas"}, name: "leader"},
	{template: "spec.leaderWorkerTemplate.workerTemplate", replicas: []string{"spec.replicas", "spec.leaderWorkerTemplate.size"}, name: "worker"},
}

func replicaSpecs(path string) place {
	return place{template: path + ".*.template", replicas: []string{path + ".*.replicas"}, name: "." + path + ".*"}
}

func rayPlaces(path string) []place {
	return []place{
		{template: path + ".headGroupSpec.template", name: "head"},
		{template: path + ".workerGroupSpecs.*.template", replicas: []string{path + ".workerGroupSpecs.*.replicas"}, name: "." + path + ".workerGroupSpecs.*.groupName"},
	}
}

func below(path string, p place) place {
	moved := place{template: path + "." + p.template, name: p.name}
	for _, replicas := range p.replicas {
		moved.replicas = append(moved.replicas, path+"."+replicas)
	}
	if p.atMost != "" {
		moved.atMost = path + "." + p.atMost
	}
	return moved
}
