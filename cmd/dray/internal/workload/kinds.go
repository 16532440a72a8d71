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
	// ended has the conditions, or the values at the path phase, with which the object makes no more
	// pods.
	ended []string
	phase string
	// exclusive has annotations with a topology, such as a rack, that pods have for themselves: the
	// controller adds pod affinity for that.
	exclusive []string
	// volumeClaims is the path of the templates of PersistentVolumeClaims, of which each pod has its
	// own.
	volumeClaims string
}

// place is a pod template, or several similar ones, with its number of replicas.
type place struct {
	template string
	// replicas are paths of numbers that are multiplied. A missing number counts as 1.
	replicas []string
	// least and most are paths of bounds of the first of replicas, which counts as the lower bound if
	// it is missing.
	least, most string
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
	"StatefulSet.apps":                         {parts: []place{replicated}, names: ordinalName, volumeClaims: "spec.volumeClaimTemplates"},
	"DaemonSet.apps":                           {parts: []place{{template: "spec.template"}}, perNode: true},
	"Job.batch":                                {parts: []place{jobPlace}, names: jobName, ended: []string{"SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"}},
	"CronJob.batch":                            {parts: []place{below("spec.jobTemplate", jobPlace)}},
	"JobSet.jobset.x-k8s.io":                   {parts: []place{jobSetPlace}, names: jobSetName, ended: []string{"Completed", "Failed"}, exclusive: []string{"alpha.jobset.sigs.k8s.io/exclusive-topology"}},
	"LeaderWorkerSet.leaderworkerset.x-k8s.io": {parts: leaderWorkerPlaces, names: indexedName, exclusive: exclusiveOfGroups, volumeClaims: "spec.leaderWorkerTemplate.volumeClaimTemplates"},
	"MPIJob.kubeflow.org":                      {parts: []place{replicaSpecs("spec.mpiReplicaSpecs")}, names: lowerPartName, ended: succeededOrFailed},
	"PyTorchJob.kubeflow.org":                  {parts: []place{replicaSpecs("spec.pytorchReplicaSpecs")}, names: lowerPartName, ended: succeededOrFailed},
	"TFJob.kubeflow.org":                       {parts: []place{replicaSpecs("spec.tfReplicaSpecs")}, names: lowerPartName, ended: succeededOrFailed},
	"XGBoostJob.kubeflow.org":                  {parts: []place{replicaSpecs("spec.xgbReplicaSpecs")}, names: lowerPartName, ended: succeededOrFailed},
	"PaddleJob.kubeflow.org":                   {parts: []place{replicaSpecs("spec.paddleReplicaSpecs")}, names: lowerPartName, ended: succeededOrFailed},
	"JAXJob.kubeflow.org":                      {parts: []place{replicaSpecs("spec.jaxReplicaSpecs")}, names: lowerPartName, ended: succeededOrFailed},
	"RayCluster.ray.io":                        {parts: rayPlaces("spec")},
	"RayJob.ray.io":                            {parts: rayPlaces("spec.rayClusterSpec"), ended: []string{"Complete", "Failed"}, phase: "status.jobDeploymentStatus"},
	"RayService.ray.io":                        {parts: rayPlaces("spec.rayClusterConfig")},
	"Job.batch.volcano.sh":                     {parts: []place{{template: "spec.tasks.*.template", replicas: []string{"spec.tasks.*.replicas"}, name: ".spec.tasks.*.name"}}, names: lowerPartName, ended: []string{"Completed", "Failed", "Terminated", "Aborted"}, phase: "status.state.phase"},
	"Rollout.argoproj.io":                      {parts: []place{replicated}, revision: true},
	"CloneSet.apps.kruise.io":                  {parts: []place{replicated}, volumeClaims: "spec.volumeClaimTemplates"},
	"StatefulSet.apps.kruise.io":               {parts: []place{replicated}, names: ordinalName, volumeClaims: "spec.volumeClaimTemplates"},
}

// exclusiveOfGroups are for the groups of a LeaderWorkerSet, and for parts of groups.
var exclusiveOfGroups = []string{"leaderworkerset.sigs.k8s.io/exclusive-topology", "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"}

// succeededOrFailed are the conditions of Kubeflow's jobs that have ended.
var succeededOrFailed = []string{"Succeeded", "Failed"}

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

// rayPlaces has the pods of a Ray cluster. A replica of a group is as many pods as it has hosts.
func rayPlaces(path string) []place {
	group := path + ".workerGroupSpecs.*."
	return []place{
		{template: path + ".headGroupSpec.template", name: "head"},
		{
			template: group + "template", replicas: []string{group + "replicas", group + "numOfHosts"},
			least: group + "minReplicas", most: group + "maxReplicas", name: "." + group + "groupName",
		},
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
