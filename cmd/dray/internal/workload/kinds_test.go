// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// template is a template of pods, without its name.
const template = "template: {spec: {containers: []}}"

// namesOf returns the names of pods. "~" stands for five random letters.
func namesOf(pods []*corev1.Pod, wanted []string) []string {
	var names []string
	for i, pod := range pods {
		name := pod.Name
		if i < len(wanted) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(wanted[i]), "~", "[a-z0-9]{5}")
			if regexp.MustCompile("^" + pattern + "$").MatchString(name) {
				name = wanted[i]
			}
		}
		names = append(names, name)
	}
	return names
}

// TestPodsOfKinds has the pods that each kind of object makes, with the names that its controller gives them.
func TestPodsOfKinds(t *testing.T) {
	for manifest, want := range map[string][]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, " + template + "}}":                                         {"d-~~-~", "d-~~-~"},
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {" + template + "}}":                                            {"r-~~-~"},
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 1, " + template + "}}":                                         {"r-~"},
		"{apiVersion: v1, kind: ReplicationController, metadata: {name: r}, spec: {replicas: 0, " + template + "}}":                                   nil,
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 2, " + template + "}}":                                        {"s-0", "s-1"},
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 2, ordinals: {start: 3}, " + template + "}}":                  {"s-3", "s-4"},
		"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 3, completions: 2, " + template + "}}":                            {"j-~", "j-~"},
		"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 2, completions: 5, " + template + "}}":                            {"j-~", "j-~"},
		"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 2, completionMode: Indexed, " + template + "}}":                   {"j-0-~", "j-1-~"},
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {jobTemplate: {spec: {parallelism: 3, completions: 2, " + template + "}}}}": {"c-~", "c-~"},
		"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 2, " + template + "}}}, {name: d, template: {spec: {" + template + "}}}]}}": {
			"s-w-0-0-~", "s-w-0-1-~", "s-w-1-0-~", "s-w-1-1-~", "s-d-0-0-~",
		},
		"{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 2, leaderWorkerTemplate: {size: 3, leaderTemplate: {spec: {containers: []}}, workerTemplate: {spec: {containers: []}}}}}": {
			"l-0", "l-1", "l-0-1", "l-0-2", "l-1-1", "l-1-2",
		},
		"{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {leaderWorkerTemplate: {size: 2, leaderTemplate: {spec: {containers: []}}, workerTemplate: {spec: {containers: []}}}}}": {"l-0", "l-0-1"},
		"{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: []}}}}}":                              {"l-0", "l-0-1", "l-1", "l-1-1"},
		"{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 2, leaderWorkerTemplate: {workerTemplate: {spec: {containers: []}}}}}":                                       {"l-0", "l-1"},
		"{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 2, leaderWorkerTemplate: {size: 0, workerTemplate: {spec: {containers: []}}}}}":                              nil,
		"{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {name: m}, spec: {mpiReplicaSpecs: {Worker: {replicas: 2, " + template + "}, Launcher: {" + template + "}}}}":                                                 {"m-launcher-0", "m-worker-0", "m-worker-1"},
		"{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Master: {" + template + "}}}}":                                                                                    {"p-master-0"},
		"{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: p}, spec: {tfReplicaSpecs: {Chief: {" + template + "}}}}":                                                                                               {"p-chief-0"},
		"{apiVersion: kubeflow.org/v1, kind: XGBoostJob, metadata: {name: p}, spec: {xgbReplicaSpecs: {Master: {" + template + "}}}}":                                                                                        {"p-master-0"},
		"{apiVersion: kubeflow.org/v1, kind: PaddleJob, metadata: {name: p}, spec: {paddleReplicaSpecs: {Master: {" + template + "}}}}":                                                                                      {"p-master-0"},
		"{apiVersion: kubeflow.org/v1, kind: JAXJob, metadata: {name: p}, spec: {jaxReplicaSpecs: {Worker: {" + template + "}}}}":                                                                                            {"p-worker-0"},
		"{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {" + template + "}, workerGroupSpecs: [{groupName: Small, replicas: 2, " + template + "}]}}":                                   {"r-head-~", "r-small-~", "r-small-~"},
		"{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {rayClusterSpec: {headGroupSpec: {" + template + "}}}}":                                                                                            {"r-head-~"},
		"{apiVersion: ray.io/v1, kind: RayService, metadata: {name: r}, spec: {rayClusterConfig: {headGroupSpec: {" + template + "}}}}":                                                                                      {"r-head-~"},
		"{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: v}, spec: {tasks: [{name: T, replicas: 2, " + template + "}, {name: u, " + template + "}]}}":                                                    {"v-t-0", "v-t-1", "v-u-0"},
		"{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: c}, spec: {replicas: 1, " + template + "}}":                                                                                                  {"c-~"},
		"{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 1, " + template + "}}":                                                                                                {"s-0"},
		"{apiVersion: example.com/v1, kind: Thing, metadata: {name: f}, spec: {replicas: 2, " + template + "}}":                                                                                                              {"f-~", "f-~"},
	} {
		c := read(t, manifest)
		if c.Foreign != (c.Kind.Kind == "Thing") {
			t.Errorf("%s: foreign %v", manifest, c.Foreign)
		}
		pods := Expand([]*Controller{c}, nil, nil)
		if diff := cmp.Diff(want, namesOf(pods, want)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", manifest, diff)
		}
		for _, pod := range pods {
			if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != c.Kind.Kind || owner.Name != c.Object.GetName() {
				t.Errorf("%s: pod %s has the owner %v", manifest, pod.Name, owner)
			}
		}
	}
}

// TestPodHasWhatItsTemplateHas compares all of a pod with the template and the object around it.
func TestPodHasWhatItsTemplateHas(t *testing.T) {
	c := read(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: ns, uid: u, creationTimestamp: "2026-01-02T03:04:05Z"},
spec: {template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {priority: 7, containers: [{name: main}]}}}}`)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "s-0", Namespace: "ns", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, CreationTimestamp: c.Object.GetCreationTimestamp(),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", UID: "u", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{Priority: ptr.To[int32](7), Containers: []corev1.Container{{Name: "main"}}},
	}
	for range 2 { // A pod that is changed does not change the next ones.
		pods := Expand([]*Controller{c}, nil, nil)
		if diff := cmp.Diff([]*corev1.Pod{want}, pods); diff != "" {
			t.Fatalf("want -, got +\n%s", diff)
		}
		pods[0].Labels["a"], pods[0].Spec.Containers[0].Name = "x", "x"
	}
}

// There are objects that are not read, with the reason.
func TestObjectsNotRead(t *testing.T) {
	for manifest, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {}}":                                                                         "spec.template: no pod template",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: -1, " + template + "}}":                                           "spec.replicas: must not be negative, got -1",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 10001, " + template + "}}":                                        "spec.replicas: 10001 pods are more than the 10000 that are looked at",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 10000, " + template + "}}":                                        "",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 1e300, " + template + "}}":                                        "spec.replicas: 2147483647 pods are more than the 10000 that are looked at",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: 1}}}}":                                        "spec.template: json: cannot unmarshal number",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {contaners: []}}}}":                                        `unknown: spec.template: unknown field "spec.contaners"`,
		"{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: d}, spec: {tfReplicaSpecs: {W: {replicas: 99999, " + template + "}}}}":              "spec.tfReplicaSpecs.W.replicas: 99999 pods are more",
		"{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: v}, spec: {tasks: [{" + template + "}, {replicas: -2, " + template + "}]}}": "spec.tasks.1.replicas: must not be negative, got -2",
		"{apiVersion: example.com/v1, kind: Thing, metadata: {name: f}, spec: {template: {spec: {}}}}":                                                   "nothing",
	} {
		raw, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		c, unknown, err := Read(object.GroupVersionKind(), object)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case len(unknown) > 0:
			got = "unknown: " + unknown[0].Error()
		case c == nil:
			got = "nothing"
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) || err != nil && c != nil {
			t.Errorf("%s: got %q, want %q", manifest, got, want)
		}
	}
}

// ownedBy is a pod of namespace ns with a controller, unless that has no kind.
func ownedBy(name, kind, owner, uid string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: types.UID(uid), Controller: ptr.To(true)}}
	}
	return pod
}

func changed(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

// TestPodsThatThereAre has pods of an object that exist already: it makes that many fewer.
func TestPodsThatThereAre(t *testing.T) {
	const set = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: ns, uid: u1}, spec: {replicas: 3, " + template + "}}"
	const job = "{apiVersion: batch/v1, kind: Job, metadata: {name: s, namespace: ns}, spec: {parallelism: 2, completionMode: Indexed, " + template + "}}"
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns}, spec: {replicas: 1, selector: {matchLabels: {app: d}}, " + template + "}}"
	labelled := func(pod *corev1.Pod, app string) *corev1.Pod {
		return changed(pod, func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} })
	}
	inPhase := func(pod *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
		return changed(pod, func(p *corev1.Pod) { p.Status.Phase = phase })
	}
	for name, c := range map[string]struct {
		manifests []string
		existing  []*corev1.Pod
		want      []string
	}{
		"one by its name":                       {[]string{set}, []*corev1.Pod{ownedBy("s-0", "StatefulSet", "s", "")}, []string{"s-1", "s-2"}},
		"one by its UID":                        {[]string{set}, []*corev1.Pod{ownedBy("s-0", "Renamed", "x", "u1")}, []string{"s-1", "s-2"}},
		"all and one more":                      {[]string{set}, []*corev1.Pod{ownedBy("a", "StatefulSet", "s", ""), ownedBy("b", "StatefulSet", "s", ""), ownedBy("c", "StatefulSet", "s", ""), ownedBy("d", "StatefulSet", "s", "")}, nil},
		"one of another object":                 {[]string{set}, []*corev1.Pod{ownedBy("x", "StatefulSet", "t", "")}, []string{"s-0", "s-1", "s-2"}},
		"one without a controller":              {[]string{set}, []*corev1.Pod{ownedBy("x", "", "", "")}, []string{"s-0", "s-1", "s-2"}},
		"one of that name that is not its own":  {[]string{set}, []*corev1.Pod{ownedBy("s-1", "", "", "")}, []string{"s-0", "s-2"}},
		"one of another namespace":              {[]string{set}, []*corev1.Pod{changed(ownedBy("s-0", "StatefulSet", "s", "u1"), func(p *corev1.Pod) { p.Namespace = "other" })}, []string{"s-0", "s-1", "s-2"}},
		"one that is deleted":                   {[]string{set}, []*corev1.Pod{changed(ownedBy("x", "StatefulSet", "s", ""), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, []string{"s-0", "s-1", "s-2"}},
		"one that failed":                       {[]string{set}, []*corev1.Pod{inPhase(ownedBy("x", "StatefulSet", "s", ""), corev1.PodFailed)}, []string{"s-0", "s-1", "s-2"}},
		"one that succeeded":                    {[]string{set}, []*corev1.Pod{inPhase(ownedBy("x", "StatefulSet", "s", ""), corev1.PodSucceeded)}, []string{"s-0", "s-1", "s-2"}},
		"one that runs":                         {[]string{set}, []*corev1.Pod{inPhase(ownedBy("x", "StatefulSet", "s", ""), corev1.PodRunning)}, []string{"s-1", "s-2"}},
		"one of a Job, which failed":            {[]string{job}, []*corev1.Pod{inPhase(ownedBy("x", "Job", "s", ""), corev1.PodFailed)}, []string{"s-0-~", "s-1-~"}},
		"one of a Job, which succeeded":         {[]string{job}, []*corev1.Pod{inPhase(ownedBy("x", "Job", "s", ""), corev1.PodSucceeded)}, []string{"s-1-~"}},
		"an object that is deleted":             {[]string{strings.Replace(set, "uid: u1", `deletionTimestamp: "2026-01-02T03:04:05Z"`, 1)}, nil, nil},
		"one of a ReplicaSet that is not given": {[]string{deployment}, []*corev1.Pod{labelled(ownedBy("x", "ReplicaSet", "d-1", ""), "d")}, nil},
		"one of a ReplicaSet of others":         {[]string{deployment}, []*corev1.Pod{labelled(ownedBy("x", "ReplicaSet", "d-1", ""), "e")}, []string{"d-~~-~"}},
		"one that only has the labels":          {[]string{deployment}, []*corev1.Pod{labelled(ownedBy("x", "StatefulSet", "d-1", ""), "d")}, []string{"d-~~-~"}},
		"a Deployment without a selector":       {[]string{strings.Replace(deployment, "matchLabels: {app: d}", "matchLabels: {}", 1)}, []*corev1.Pod{ownedBy("x", "ReplicaSet", "d-1", "")}, []string{"d-~~-~"}},
		"a ReplicaSet of a Deployment makes no pods of its own, and its pods are the Deployment's": {
			[]string{strings.Replace(deployment, "replicas: 1", "replicas: 2", 1), "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: ns, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: x, controller: true}]}, spec: {replicas: 5, " + template + "}}"},
			[]*corev1.Pod{ownedBy("x", "ReplicaSet", "r", "")}, []string{"d-~~-~"},
		},
		"the first parts of an object are taken to exist": {
			[]string{"{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {name: m, namespace: ns}, spec: {mpiReplicaSpecs: {Worker: {replicas: 2, " + template + "}, Launcher: {" + template + "}}}}"},
			[]*corev1.Pod{ownedBy("x", "MPIJob", "m", ""), ownedBy("y", "MPIJob", "m", "")}, []string{"m-worker-1"},
		},
	} {
		var controllers []*Controller
		for _, manifest := range c.manifests {
			controllers = append(controllers, read(t, manifest))
		}
		if diff := cmp.Diff(c.want, namesOf(Expand(controllers, c.existing, nil), c.want)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// TestDaemons has what the DaemonSet controller gives its pods: tolerations, and the node as the only one.
func TestDaemons(t *testing.T) {
	const manifest = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, namespace: ns}, spec: {template: {spec: {hostNetwork: NETWORK, containers: [],
tolerations: [{key: own}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}}}}}}}`
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}, {ObjectMeta: metav1.ObjectMeta{Name: "gpu", Labels: map[string]string{"gpu": ""}}}}
	for network, keys := range map[string][]string{
		"false": {"own", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/unschedulable"},
		"true":  {"own", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/unschedulable", "node.kubernetes.io/network-unavailable"},
	} {
		c := read(t, strings.Replace(manifest, "NETWORK", network, 1))
		pods := Expand([]*Controller{c}, nil, nodes)
		if len(pods) != 1 {
			t.Fatalf("%d pods, want that of node gpu", len(pods))
		}
		var got []string
		for _, toleration := range pods[0].Spec.Tolerations {
			got = append(got, toleration.Key)
		}
		terms := pods[0].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		want := []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"gpu"}}}}}
		if diff := cmp.Diff(want, terms); diff != "" || !slices.Equal(got, keys) {
			t.Errorf("hostNetwork %s: tolerates %q, want %q; node selector: want -, got +\n%s", network, got, keys, diff)
		}
		if pods := Expand([]*Controller{c}, []*corev1.Pod{ownedBy("x", "DaemonSet", "d", "")}, nodes); len(pods) > 0 {
			t.Errorf("%d pods beside those that there are", len(pods))
		}
	}
}

func TestSuspended(t *testing.T) {
	for text, want := range map[string]bool{"suspend: true, ": true, "suspend: false, ": false, "": false, "suspend: 1, ": false} {
		c := read(t, "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {"+text+template+"}}")
		if c.Suspended() != want {
			t.Errorf("%q: suspended %v", text, c.Suspended())
		}
	}
}

// TestMakers has the object that a user wrote for a pod, by the controller and the labels of the pod.
func TestMakers(t *testing.T) {
	for name, c := range map[string]struct {
		kind, owner string
		labels      map[string]string
		maker       string
		// named are the names by kind. Other kinds have none.
		named map[string]string
	}{
		"no controller":                  {labels: map[string]string{"jobset.sigs.k8s.io/jobset-name": "x"}},
		"a Deployment":                   {"ReplicaSet", "web-5d9c", map[string]string{"pod-template-hash": "5d9c"}, "deployment/web", map[string]string{"deployment": "web", "replicaset": "web-5d9c"}},
		"a ReplicaSet":                   {"ReplicaSet", "web-5d9c", nil, "replicaset/web-5d9c", map[string]string{"replicaset": "web-5d9c"}},
		"a ReplicaSet with another hash": {"ReplicaSet", "web-5d9c", map[string]string{"pod-template-hash": "6e"}, "replicaset/web-5d9c", map[string]string{"replicaset": "web-5d9c"}},
		"a CronJob":                      {"Job", "nightly-29012345", nil, "cronjob/nightly", map[string]string{"cronjob": "nightly", "job": "nightly-29012345"}},
		"a Job":                          {"Job", "train-7", nil, "job/train-7", map[string]string{"job": "train-7"}},
		"a JobSet":                       {"Job", "set-w-0", map[string]string{"jobset.sigs.k8s.io/jobset-name": "set"}, "jobset/set", map[string]string{"job": "set-w-0", "jobset": "set"}},
		"a LeaderWorkerSet":              {"StatefulSet", "serve-0", map[string]string{"leaderworkerset.sigs.k8s.io/name": "serve"}, "leaderworkerset/serve", map[string]string{"statefulset": "serve-0", "leaderworkerset": "serve"}},
		"an InferenceService":            {"ReplicaSet", "llm-5d9c", map[string]string{"pod-template-hash": "5d9c", "serving.kserve.io/inferenceservice": "llm"}, "inferenceservice/llm", map[string]string{"replicaset": "llm-5d9c", "deployment": "llm", "inferenceservice": "llm"}},
		"a virtual machine":              {"VirtualMachineInstance", "vm", nil, "virtualmachineinstance/vm", map[string]string{"virtualmachineinstance": "vm", "virtualmachine": "vm"}},
	} {
		pod := ownedBy("x", c.kind, c.owner, "")
		pod.Labels = c.labels
		if got := MakerOf(pod); got != c.maker {
			t.Errorf("%s: made by %q, want %q", name, got, c.maker)
		}
		for _, kind := range append([]string{"replicaset", "job", "statefulset", "virtualmachineinstance"}, Makers()...) {
			kind = strings.ToLower(kind)
			if got := MadeBy(pod, kind); got != c.named[kind] {
				t.Errorf("%s: the %s is %q, want %q", name, kind, got, c.named[kind])
			}
		}
	}
}

// A replica of a worker group of Ray is as many pods as it has hosts, and no group has fewer or more replicas than its bounds.
func TestRayWorkers(t *testing.T) {
	for group, want := range map[string]int{
		"replicas: 2, ":                   2,
		"replicas: 2, numOfHosts: 4, ":    8,
		"":                                0,
		"minReplicas: 1, numOfHosts: 4, ": 4,
		"replicas: 1, minReplicas: 2, ":   2,
		"replicas: 5, minReplicas: 2, maxReplicas: 3, ": 3,
	} {
		group = "workerGroupSpecs: [{groupName: g, " + group + template + "}]"
		for kind, spec := range map[string]string{"RayCluster": group, "RayJob": "rayClusterSpec: {" + group + "}", "RayService": "rayClusterConfig: {" + group + "}"} {
			c := read(t, "{apiVersion: ray.io/v1, kind: "+kind+", metadata: {name: r}, spec: {"+spec+"}}")
			if pods := Expand([]*Controller{c}, nil, nil); len(pods) != want {
				t.Errorf("%s with %s: %d pods, want %d", kind, group, len(pods), want)
			}
		}
	}
}

// TestEnded has objects that have ended: they make no pods, even if none are there.
func TestEnded(t *testing.T) {
	const replicas = "{W: {" + template + "}}"
	for manifest, want := range map[string]int{
		"apiVersion: batch/v1, kind: Job, spec: {" + template + "}, status: {conditions: [{type: Complete, status: 'True'}]}":                                                             0,
		"apiVersion: batch/v1, kind: Job, spec: {" + template + "}, status: {conditions: [{type: Suspended, status: 'False'}, {type: Failed, status: 'True'}]}":                           0,
		"apiVersion: batch/v1, kind: Job, spec: {" + template + "}, status: {conditions: [{type: Failed, status: 'False'}]}":                                                              1,
		"apiVersion: apps/v1, kind: Deployment, spec: {" + template + "}, status: {conditions: [{type: Failed, status: 'True'}]}":                                                         1,
		"apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [{template: {spec: {" + template + "}}}]}, status: {conditions: [{type: Completed, status: 'True'}]}": 0,
		"apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {pytorchReplicaSpecs: " + replicas + "}, status: {conditions: [{type: Succeeded, status: 'True'}]}":                         0,
		"apiVersion: kubeflow.org/v2beta1, kind: MPIJob, spec: {mpiReplicaSpecs: " + replicas + "}, status: {conditions: [{type: Failed, status: 'True'}]}":                               0,
		"apiVersion: kubeflow.org/v2beta1, kind: MPIJob, spec: {mpiReplicaSpecs: " + replicas + "}, status: {conditions: [{type: Running, status: 'True'}]}":                              1,
		"apiVersion: ray.io/v1, kind: RayJob, spec: {rayClusterSpec: {headGroupSpec: {" + template + "}}}, status: {jobDeploymentStatus: Failed}":                                         0,
		"apiVersion: ray.io/v1, kind: RayJob, spec: {rayClusterSpec: {headGroupSpec: {" + template + "}}}, status: {jobDeploymentStatus: Running}":                                        1,
		"apiVersion: batch.volcano.sh/v1alpha1, kind: Job, spec: {tasks: [{" + template + "}]}, status: {state: {phase: Completed}}":                                                      0,
		"apiVersion: batch.volcano.sh/v1alpha1, kind: Job, spec: {tasks: [{" + template + "}]}, status: {state: {phase: Pending}}":                                                        1,
	} {
		c := read(t, "{metadata: {name: x}, "+manifest+"}")
		if pods := Expand([]*Controller{c}, nil, nil); len(pods) != want {
			t.Errorf("%s: %d pods, want %d", manifest, len(pods), want)
		}
	}
}

// Pods have the volumes for which their object makes PersistentVolumeClaims.
func TestVolumeClaims(t *testing.T) {
	const claims = "volumeClaimTemplates: [{metadata: {name: data}}, {metadata: {name: logs}}]"
	for manifest, want := range map[string]string{
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {" + claims + ", " + template + "}}":                                                                         "data-s-0 logs-s-0",
		"{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {leaderWorkerTemplate: {" + claims + ", workerTemplate: {spec: {containers: []}}}}}": "data-l-0 logs-l-0",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {" + template + "}}":                                                                                          "",
	} {
		pods := Expand([]*Controller{read(t, manifest)}, nil, nil)
		var got []string
		for _, volume := range pods[0].Spec.Volumes {
			got = append(got, volume.PersistentVolumeClaim.ClaimName)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: claims %q, want %s", manifest, got, want)
		}
	}
}

// An annotation of JobSets, of their jobs and of LeaderWorkerSets stands for pod affinity that the controller adds.
func TestExclusiveTopology(t *testing.T) {
	const jobSet = "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s%s}, spec: {replicatedJobs: [{name: w, template: {%sspec: {" + template + "}}}]}}"
	const group = "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l%s}, spec: {leaderWorkerTemplate: {workerTemplate: {spec: {containers: []}}}}}"
	const ofJobSet, ofGroup, ofPart = "alpha.jobset.sigs.k8s.io/exclusive-topology: rack", "leaderworkerset.sigs.k8s.io/exclusive-topology: rack", "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: rack"
	for manifest, want := range map[string]string{
		fmt.Sprintf(jobSet, "", ""):                                          "",
		fmt.Sprintf(jobSet, ", annotations: {"+ofJobSet+"}", ""):             "rack",
		fmt.Sprintf(jobSet, "", "metadata: {annotations: {"+ofJobSet+"}}, "): "rack",
		fmt.Sprintf(jobSet, ", annotations: {"+ofGroup+"}", ""):              "",
		fmt.Sprintf(group, ", annotations: {"+ofGroup+"}"):                   "rack",
		fmt.Sprintf(group, ", annotations: {"+ofPart+"}"):                    "rack",
		fmt.Sprintf(group, ""):                                               "",
	} {
		got := ""
		if affinity := Expand([]*Controller{read(t, manifest)}, nil, nil)[0].Spec.Affinity; affinity != nil {
			got = affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey
			if anti := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey; anti != got {
				t.Errorf("%s: anti-affinity in %q", manifest, anti)
			}
		}
		if got != want {
			t.Errorf("%s: affinity in %q, want %q", manifest, got, want)
		}
	}
}
