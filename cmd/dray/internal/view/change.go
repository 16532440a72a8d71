// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/podclaims"
)

// Change is a what-if: changes of a copy of the cluster, made in the order of the fields.
type Change struct {
	// YAML has manifests to add.
	YAML   string   `json:"yaml,omitempty"`
	Taint  *Taint   `json:"taint,omitempty"`
	Cordon []string `json:"cordon,omitempty"` // names of nodes
	// Drain are names of nodes to cordon. Their pods become pending.
	Drain []string `json:"drain,omitempty"`
	// Remove are pods to delete, as namespace/name.
	Remove []string `json:"remove,omitempty"`
	// Add is the number of nodes to add, by the existing node that they are like.
	Add map[string]int `json:"add,omitempty"`
}

// Taint is a taint for devices. Empty fields match all devices.
type Taint struct {
	Taint  string `json:"taint"` // KEY[=VALUE]:EFFECT
	Driver string `json:"driver,omitempty"`
	Pool   string `json:"pool,omitempty"`
	Device string `json:"device,omitempty"`
	Node   string `json:"node,omitempty"`
}

// maxAdded is the maximum number of nodes that a what-if adds.
const maxAdded = 1000

// apply returns a copy of the objects with the change. c is the cluster of the objects.
func (s *Source) apply(change *Change, objects *input.Objects, c *cluster.Cluster) (*input.Objects, error) {
	after := *objects
	if change.YAML != "" {
		if err := s.addManifests(&after, change.YAML); err != nil {
			return nil, err
		}
	}
	if change.Taint != nil {
		if err := taint(&after, c, change.Taint); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Concat(change.Cordon, change.Drain) {
		if err := cordon(&after, name); err != nil {
			return nil, err
		}
	}
	for _, name := range change.Drain {
		for _, pod := range after.Pods {
			if pod.Spec.NodeName == name && !stays(pod) {
				evict(&after, pod)
			}
		}
	}
	for _, name := range change.Remove {
		if err := remove(&after, name); err != nil {
			return nil, err
		}
	}
	return &after, add(&after, c, change.Add)
}

// addManifests adds objects from manifests.
func (s *Source) addManifests(to *input.Objects, text string) error {
	more, err := s.Read(text)
	if err != nil {
		return err
	}
	return to.Join(more)
}

// taint adds a taint to devices, as a DeviceTaintRule would.
func taint(to *input.Objects, c *cluster.Cluster, change *Taint) error {
	parsed, err := cluster.ParseTaint(change.Taint)
	if err != nil {
		return fmt.Errorf("taint: %w", err)
	}
	if change.Driver+change.Pool+change.Device+change.Node == "" {
		return errors.New("taint: say which devices: by node, driver, pool or device")
	}
	var only *corev1.Node
	if change.Node != "" {
		if only = c.Node(change.Node); only == nil {
			return fmt.Errorf("taint: node %s does not exist", change.Node)
		}
	}
	states, err := c.Inventory(only)
	if err != nil {
		return err
	}
	var rules []*resourceapi.DeviceTaintRule
	for i := range states {
		pool := &states[i]
		if change.Driver != "" && pool.Driver != change.Driver || change.Pool != "" && pool.Pool != change.Pool {
			continue
		}
		for k := range pool.Devices {
			if change.Device == "" || pool.Devices[k].Name == change.Device {
				rules = append(rules, ruleFor(pool, pool.Devices[k].Name, parsed))
			}
		}
	}
	if len(rules) == 0 {
		return errors.New("taint: there is no such device")
	}
	to.Slices = taintEach(to.Slices, rules)
	return nil
}

func ruleFor(pool *cluster.PoolState, device string, taint resourceapi.DeviceTaint) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "what-if"},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &pool.Driver, Pool: &pool.Pool, Device: &device}, Taint: taint,
		},
	}
}

// taintEach applies to each slice only the rules for its pool, since there is a rule for each
// device.
func taintEach(all []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) []*resourceapi.ResourceSlice {
	ofPool := make(map[string][]*resourceapi.DeviceTaintRule)
	for _, rule := range rules {
		key := *rule.Spec.DeviceSelector.Driver + "/" + *rule.Spec.DeviceSelector.Pool
		ofPool[key] = append(ofPool[key], rule)
	}
	tainted := make([]*resourceapi.ResourceSlice, len(all))
	for i, slice := range all {
		tainted[i] = podclaims.ApplyTaintRules([]*resourceapi.ResourceSlice{slice}, ofPool[slice.Spec.Driver+"/"+slice.Spec.Pool.Name])[0]
	}
	return tainted
}

func cordon(to *input.Objects, name string) error {
	at := slices.IndexFunc(to.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if at < 0 {
		return fmt.Errorf("node %s does not exist", name)
	}
	node := to.Nodes[at].DeepCopy()
	node.Spec.Unschedulable = true
	to.Nodes = replaced(to.Nodes, at, node)
	return nil
}

// replaced returns a copy of a list with one element replaced.
func replaced[T any](list []T, at int, object T) []T {
	list = slices.Clone(list)
	list[at] = object
	return list
}

// stays reports whether a pod cannot be evicted, or would be created again on its node.
func stays(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || ofDaemonSet(pod)
}

func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// evict makes a pod pending, as its replacement would be.
func evict(from *input.Objects, pod *corev1.Pod) {
	at := slices.Index(from.Pods, pod)
	waiting := pod.DeepCopy()
	waiting.Spec.NodeName, waiting.Status = "", corev1.PodStatus{Phase: corev1.PodPending, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses}
	waiting.DeletionTimestamp = nil
	from.Pods = replaced(from.Pods, at, waiting)
	release(from, keyOf(pod), false)
}

// remove deletes a pod, and its claims that no other pod uses. The pod may be known only as the
// consumer of a claim.
func remove(from *input.Objects, name string) error {
	namespace, pod, _ := strings.Cut(name, "/")
	key := types.NamespacedName{Namespace: namespace, Name: pod}
	at := slices.IndexFunc(from.Pods, func(p *corev1.Pod) bool { return keyOf(p) == key })
	if at >= 0 {
		from.Pods = slices.Delete(slices.Clone(from.Pods), at, at+1)
	}
	if released := release(from, key, true); at < 0 && !released {
		return fmt.Errorf("pod %s does not exist", name)
	}
	return nil
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// release removes a pod from the consumers of claims. A claim without consumers is deallocated. It
// is deleted if it was generated for the pod, and gone is set.
func release(from *input.Objects, pod types.NamespacedName, gone bool) (released bool) {
	var claims []*resourceapi.ResourceClaim
	for _, claim := range from.Claims {
		uses := func(r resourceapi.ResourceClaimConsumerReference) bool {
			return claim.Namespace == pod.Namespace && r.APIGroup == "" && r.Resource == "pods" && r.Name == pod.Name
		}
		if !slices.ContainsFunc(claim.Status.ReservedFor, uses) {
			claims = append(claims, claim)
			continue
		}
		released = true
		freed := claim.DeepCopy()
		freed.Status.ReservedFor = slices.DeleteFunc(freed.Status.ReservedFor, uses)
		if len(freed.Status.ReservedFor) == 0 {
			freed.Status.Allocation, freed.Status.Devices = nil, nil
			if owner := metav1.GetControllerOf(claim); gone && owner != nil && owner.Kind == "Pod" {
				continue
			}
		}
		claims = append(claims, freed)
	}
	from.Claims = claims
	return released
}

// add adds nodes that are like others, with copies of the devices and DaemonSet pods of these.
func add(to *input.Objects, c *cluster.Cluster, wanted map[string]int) error {
	if len(wanted) == 0 {
		return nil
	}
	state, err := c.Simulation()
	if err != nil {
		return err
	}
	total := 0
	for _, like := range slices.Sorted(maps.Keys(wanted)) {
		if total += wanted[like]; wanted[like] < 0 || total > maxAdded {
			return fmt.Errorf("add %d nodes like %s: want 0 to %d in all", wanted[like], like, maxAdded)
		}
		template, err := state.TemplateOf(like, nil)
		if err != nil {
			return fmt.Errorf("add: %w", err)
		}
		for n := range wanted[like] {
			node, published := template.Nodes(n)
			to.Nodes = append(to.Nodes[:len(to.Nodes):len(to.Nodes)], node)
			to.Slices = append(to.Slices[:len(to.Slices):len(to.Slices)], published...)
			to.Pods = append(to.Pods[:len(to.Pods):len(to.Pods)], daemonsOf(to.Pods, like, node.Name)...)
		}
	}
	return nil
}

// daemonsOf returns copies of the DaemonSet pods of a node for another one, without their claims.
func daemonsOf(pods []*corev1.Pod, node, another string) []*corev1.Pod {
	var copies []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName == node && ofDaemonSet(pod) {
			one := pod.DeepCopy()
			one.Name, one.Spec.NodeName, one.Spec.ResourceClaims = pod.Name+"-"+another, another, nil
			copies = append(copies, one)
		}
	}
	return copies
}
