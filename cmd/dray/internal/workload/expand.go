// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// suffixLength is the number of random characters that an API server appends to generateName.
const suffixLength = 5

// Expand returns the pods that controllers would create on these nodes. Existing pods of a
// controller are subtracted, those of a DaemonSet node by node. A controller that is owned by another one in the list is ignored.
func Expand(controllers []*Controller, existing []*corev1.Pod, nodes []*corev1.Node) []*corev1.Pod {
	family := newFamily(controllers)
	taken := make(names)
	for _, pod := range existing {
		taken.take(pod.Namespace, pod.Name)
	}
	var made []*corev1.Pod
	for _, c := range controllers {
		if family.parent(c) != nil || c.Object.GetDeletionTimestamp() != nil || c.ended() {
			continue
		}
		var have []*corev1.Pod
		for _, pod := range existing {
			if family.made(c, pod) {
				have = append(have, pod)
			}
		}
		made = append(made, c.pods(have, nodes, taken)...)
	}
	return made
}

// names is a set of pods' names.
type names map[types.NamespacedName]bool

// take adds a name, and reports whether it was new.
func (n names) take(namespace, name string) bool {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	free := !n[key]
	n[key] = true
	return free
}

// Suspended reports whether the object is suspended. Expand expands it anyway, so that users see
// where its pods will run.
func (c *Controller) Suspended() bool {
	suspended, _ := lookUp(c.Object.Object, "spec.suspend").(bool)
	return suspended
}

// ended reports whether the status says that the object makes no more pods, as that of a Job which
// has completed or failed.
func (c *Controller) ended() bool {
	known := kinds[c.Kind.GroupKind().String()]
	conditions, _ := lookUp(c.Object.Object, "status.conditions").([]any)
	for _, condition := range conditions {
		name, _ := member(condition, "type").(string)
		if member(condition, "status") == "True" && slices.Contains(known.ended, name) {
			return true
		}
	}
	phase, _ := lookUp(c.Object.Object, known.phase).(string)
	return slices.Contains(known.ended, phase)
}

// pods returns the pods that a controller lacks beside those that exist.
func (c *Controller) pods(existing []*corev1.Pod, nodes []*corev1.Node, taken names) []*corev1.Pod {
	known := kinds[c.Kind.GroupKind().String()]
	have := len(existing)
	var pods []*corev1.Pod
	for _, part := range c.Parts {
		if known.perNode {
			pods = append(pods, c.perNode(part, existing, nodes, taken)...)
			continue
		}
		attempt := 0
		for i := min(have, part.Count); i < part.Count; i++ {
			name := ""
			if known.names != nil {
				name = known.names(c, part, i)
			}
			switch {
			case name == "":
				pods = append(pods, c.pod(part, c.generatedName(part, known.revision, taken, &attempt)))
			case taken.take(c.Object.GetNamespace(), name):
				// otherwise an existing pod of that name prevents the creation
				pods = append(pods, c.pod(part, name))
			}
		}
		have = max(0, have-part.Count)
	}
	return pods
}

func (c *Controller) pod(part *Part, name string) *corev1.Pod {
	template := part.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = name, c.Object.GetNamespace()
	pod.CreationTimestamp = c.Object.GetCreationTimestamp()
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c.Object, c.Kind)}
	if topology := c.exclusiveTopology(part); topology != "" {
		setExclusive(&pod.Spec, topology)
	}
	for _, claim := range resolve(c.Object.Object, kinds[c.Kind.GroupKind().String()].volumeClaims+".*") {
		volume, _ := lookUp(claim.value, "metadata.name").(string)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: join(volume, name)},
		}})
	}
	return pod
}

// exclusiveTopology returns the topology that pods have for themselves, by an annotation of the object
// or of the jobs that it makes.
func (c *Controller) exclusiveTopology(part *Part) string {
	ofJobs, _ := lookUp(c.Object.Object, strings.TrimSuffix(part.Path, "spec.template")+"metadata.annotations").(map[string]any)
	for _, name := range kinds[c.Kind.GroupKind().String()].exclusive {
		topology, _ := ofJobs[name].(string)
		if topology = cmp.Or(topology, c.Object.GetAnnotations()[name]); topology != "" {
			return topology
		}
	}
	return ""
}

// setExclusive adds pod affinity and anti-affinity, as controllers do for an exclusive topology. Their
// selectors are left out: pod affinity is not looked at.
func setExclusive(spec *corev1.PodSpec, topology string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	terms := []corev1.PodAffinityTerm{{TopologyKey: topology}}
	spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}

// generatedName returns a name with a generated suffix, as an API server does, but deterministic.
// It tries further suffixes while the name is taken. attempt is the number of the next suffix of
// the part.
func (c *Controller) generatedName(part *Part, revision bool, taken names, attempt *int) string {
	base := join(c.Object.GetName(), strings.ToLower(part.Name))
	if revision {
		// the name of the ReplicaSet contains a hash of the template
		base += "-" + suffix(c.String()+part.Path, 2*suffixLength)
	}
	for ; ; *attempt++ {
		name := base + "-" + suffix(c.String()+part.Path+strconv.Itoa(*attempt), suffixLength)
		if taken.take(c.Object.GetNamespace(), name) {
			return name
		}
	}
}

func suffix(of string, length int) string {
	sum := sha256.Sum256([]byte(of))
	return rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:length]
}

func join(parts ...string) string {
	var some []string
	for _, part := range parts {
		if part != "" {
			some = append(some, part)
		}
	}
	return strings.Join(some, "-")
}

func ordinalName(c *Controller, _ *Part, index int) string {
	start, _ := number(c.Object.Object, "spec.ordinals.start")
	return fmt.Sprintf("%s-%d", c.Object.GetName(), start+index)
}

func indexedName(c *Controller, part *Part, index int) string {
	size, found := number(c.Object.Object, "spec.leaderWorkerTemplate.size")
	if !found || size < 1 {
		size = 1
	}
	switch {
	case part.Name == "leader":
		return fmt.Sprintf("%s-%d", c.Object.GetName(), index)
	case len(c.Parts) == 1 && index%size == 0:
		return fmt.Sprintf("%s-%d", c.Object.GetName(), index/size)
	case len(c.Parts) == 1:
		return fmt.Sprintf("%s-%d-%d", c.Object.GetName(), index/size, index%size)
	}
	return fmt.Sprintf("%s-%d-%d", c.Object.GetName(), index/(size-1), index%(size-1)+1)
}

func lowerPartName(c *Controller, part *Part, index int) string {
	return fmt.Sprintf("%s-%s-%d", c.Object.GetName(), strings.ToLower(part.Name), index)
}

// jobName returns the prefix with the index of an indexed Job. The API server appends a random
// suffix.
func jobName(c *Controller, part *Part, index int) string {
	if mode, _ := lookUp(c.Object.Object, "spec.completionMode").(string); mode != "Indexed" {
		return ""
	}
	return fmt.Sprintf("%s-%d-%s", c.Object.GetName(), index, suffix(c.String()+part.Path+strconv.Itoa(index), suffixLength))
}

// jobSetName returns a name with the indexes of the job and of the pod within the job.
func jobSetName(c *Controller, part *Part, index int) string {
	perJob := 1
	if n, found := number(c.Object.Object, strings.TrimSuffix(part.Path, "template")+"parallelism"); found && n > 0 {
		perJob = n
	}
	stem := fmt.Sprintf("%s-%s-%d-%d", c.Object.GetName(), part.Name, index/perJob, index%perJob)
	return stem + "-" + suffix(c.String()+stem, suffixLength)
}

// family finds the owners of controllers and pods.
type family struct {
	byUID  map[types.UID]*Controller
	byName map[string]*Controller
}

func newFamily(controllers []*Controller) *family {
	f := &family{byUID: make(map[types.UID]*Controller), byName: make(map[string]*Controller)}
	for _, c := range controllers {
		if uid := c.Object.GetUID(); uid != "" {
			f.byUID[uid] = c
		}
		f.byName[nameKey(c.Kind.Kind, c.Object.GetNamespace(), c.Object.GetName())] = c
	}
	return f
}

func nameKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func (f *family) owner(namespace string, reference *metav1.OwnerReference) *Controller {
	if reference == nil {
		return nil
	}
	if c := f.byUID[reference.UID]; c != nil {
		return c
	}
	return f.byName[nameKey(reference.Kind, namespace, reference.Name)]
}

func (f *family) parent(c *Controller) *Controller {
	return f.owner(c.Object.GetNamespace(), c.Owner())
}

// made reports whether the controller has created the pod, directly or through another controller.
// If the latter is missing in the input, a Deployment is matched by its selector.
func (f *family) made(c *Controller, pod *corev1.Pod) bool {
	reference := metav1.GetControllerOf(pod)
	if reference == nil || pod.Namespace != c.Object.GetNamespace() || pod.DeletionTimestamp != nil || finished(c, pod) {
		return false
	}
	owner := f.owner(pod.Namespace, reference)
	if owner == nil {
		return c.Kind.Kind == "Deployment" && reference.Kind == "ReplicaSet" && c.selects(pod)
	}
	for range len(f.byName) {
		if owner == c {
			return true
		}
		if owner = f.parent(owner); owner == nil {
			return false
		}
	}
	return false
}

// finished reports whether the controller will replace the pod.
func finished(c *Controller, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded && c.Kind.Group != "batch"
}

func (c *Controller) selects(pod *corev1.Pod) bool {
	wanted, _ := lookUp(c.Object.Object, "spec.selector.matchLabels").(map[string]any)
	set := make(labels.Set)
	for key, value := range wanted {
		set[key], _ = value.(string)
	}
	return len(set) > 0 && set.AsSelector().Matches(labels.Set(pod.Labels))
}
