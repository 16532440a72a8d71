// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
)

// reference is a cluster that changes the slow way: objects with their names, and an allocator that
// is asked about one node at a time. It is a value; copying it makes a version.
type reference struct {
	allocate alloctest.Allocator
	base     *alloctest.Case // features and classes
	nodes    []*corev1.Node  // real ones
	slices   []*resourceapi.ResourceSlice
	added    []*corev1.Node // of the template
	claims   map[string]*resourceapi.ResourceClaim
	pods     []*placedPod
	// unpublished are those of the slices that are only expected.
	unpublished []*resourceapi.ResourceSlice
	// only are the real nodes that pods are placed on; nil for all.
	only func(*corev1.Node) bool
}

// placedPod is a pod with the names of its claims.
type placedPod struct {
	pod    *corev1.Pod
	node   string
	claims []string
}

func (r *reference) clone() *reference {
	c := *r
	c.nodes, c.slices, c.added = slices.Clone(r.nodes), slices.Clone(r.slices), slices.Clone(r.added)
	c.claims, c.pods = maps.Clone(r.claims), slices.Clone(r.pods)
	return &c
}

// allocated lists the claims that hold devices, by name.
func (r *reference) allocated() []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for _, name := range slices.Sorted(maps.Keys(r.claims)) {
		if claim := r.claims[name]; claim.Status.Allocation != nil {
			list = append(list, claim)
		}
	}
	return list
}

// errDoubt is that a node is neither a yes nor a no.
var errDoubt = errors.New("undecided")

// on asks about one node. Nil results without an error are a no.
func (r *reference) on(ctx context.Context, node *corev1.Node, extra []*resourceapi.ResourceSlice, pod *corev1.Pod, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if !r.hasCPU(node, pod) {
		return nil, nil
	}
	var open []*resourceapi.ResourceClaim
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			open = append(open, claim)
			continue
		}
		if !admits(claim, node) {
			return nil, nil
		}
	}
	if len(open) == 0 {
		return []resourceapi.AllocationResult{}, nil
	}
	outcome := r.allocate(ctx, &alloctest.Case{
		Features: r.base.Features, Classes: r.base.Classes, Nodes: append(slices.Clone(r.nodes), append(slices.Clone(r.added), node)...),
		Slices: append(slices.Clone(r.slices), extra...), Allocated: alone(r.allocated(), claims), Claims: open, Node: node.Name,
	})
	if outcome.NodeOnly && !errors.Is(outcome.Err, peer.ErrUndecided) {
		return nil, nil // invalid pools: kube-scheduler tries other nodes
	}
	if outcome.Err != nil {
		return nil, fmt.Errorf("%w: %w", errDoubt, outcome.Err)
	}
	return outcome.Results, nil
}

// alone are claims, of which those that are not of the pod ask for nothing.
func alone(allocated, ofPod []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	list := slices.Clone(allocated)
	for i, claim := range list {
		if len(claim.Annotations) > 0 && !slices.Contains(ofPod, claim) {
			list[i] = claim.DeepCopy()
			list[i].Annotations = nil
		}
	}
	return list
}

// admits reports whether an allocated claim can be used on a node.
func admits(claim *resourceapi.ResourceClaim, node *corev1.Node) bool {
	s := claim.Status.Allocation.NodeSelector
	if s == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(s)
	return err == nil && selector.Match(node)
}

// cpus is a list of resources with nothing but CPU.
func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

// hasCPU is NodeResourcesFit with nothing but CPU.
func (r *reference) hasCPU(node *corev1.Node, pod *corev1.Pod) bool {
	total, listed := node.Status.Allocatable[corev1.ResourceCPU]
	if !listed {
		return len(node.Status.Allocatable) == 0 || pod.Spec.Containers[0].Resources.Requests.Cpu().IsZero()
	}
	return r.cpuUsed(node)+pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() <= total.MilliValue()
}

// cpuUsed is what the pods of a node ask for.
func (r *reference) cpuUsed(node *corev1.Node) (used int64) {
	for _, p := range r.pods {
		if p.node == node.Name {
			used += p.pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	return used
}

// claimsOf returns the claims of a pod: those it shares as they are, its own ones new.
func (r *reference) claimsOf(pod *corev1.Pod, templates map[string]*resourceapi.ResourceClaimTemplate) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for _, podClaim := range pod.Spec.ResourceClaims {
		if podClaim.ResourceClaimName != nil {
			claims = append(claims, r.claims[*podClaim.ResourceClaimName])
			continue
		}
		template := templates[*podClaim.ResourceClaimTemplateName].Spec.DeepCopy()
		claim := &resourceapi.ResourceClaim{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+podClaim.Name
		claims = append(claims, claim)
	}
	return claims
}

// place puts a pod on the first node that takes it: real nodes, those of the template, a new one.
// Doubt is set if it was not placed and some node is in doubt.
func (r *reference) place(ctx context.Context, pod *corev1.Pod, claims []*resourceapi.ResourceClaim, fresh func(int) (*corev1.Node, []*resourceapi.ResourceSlice)) (node string, results []resourceapi.AllocationResult, doubt bool, err error) {
	try := func(n *corev1.Node, extra []*resourceapi.ResourceSlice) (bool, error) {
		found, err := r.on(ctx, n, extra, pod, claims)
		if errors.Is(err, errDoubt) {
			doubt = true
			return false, nil
		}
		if err != nil || found == nil {
			return false, err
		}
		r.keep(pod, n, claims, found)
		node, results = n.Name, found
		return true, nil
	}
	for _, n := range r.candidates() {
		if done, err := try(n, nil); done || err != nil {
			return node, results, false, err
		}
	}
	if fresh != nil {
		n, published := fresh(len(r.added))
		done, err := try(n, published)
		if err != nil {
			return "", nil, false, err
		}
		if done {
			r.added = append(r.added, n)
			r.slices = append(r.slices, published...)
			return node, results, false, nil
		}
	}
	return "", nil, doubt, nil
}

// candidates are the nodes that pods may be placed on, in order.
func (r *reference) candidates() []*corev1.Node {
	if r.only == nil {
		return slices.Concat(r.nodes, r.added)
	}
	return slices.Concat(slices.DeleteFunc(slices.Clone(r.nodes), func(n *corev1.Node) bool { return !r.only(n) }), r.added)
}

func (r *reference) keep(pod *corev1.Pod, node *corev1.Node, claims []*resourceapi.ResourceClaim, results []resourceapi.AllocationResult) {
	placed := &placedPod{pod: pod, node: node.Name}
	for _, claim := range claims {
		claim = claim.DeepCopy()
		if claim.Status.Allocation == nil {
			claim.Status.Allocation, results = &results[0], results[1:]
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name})
		r.claims[claim.Name] = claim
		placed.claims = append(placed.claims, claim.Name)
	}
	r.pods = append(r.pods, placed)
}

// own lists the slices of the pools that a node alone has.
func (r *reference) own(node string) []*resourceapi.ResourceSlice {
	several := make(map[string]string)
	for _, s := range r.slices {
		id, name := s.Spec.Driver+"/"+s.Spec.Pool.Name, ptr.Deref(s.Spec.NodeName, "*")
		if before, known := several[id]; known && before != name {
			name = "*"
		}
		several[id] = name
	}
	return slices.DeleteFunc(slices.Clone(r.slices), func(s *resourceapi.ResourceSlice) bool { return several[s.Spec.Driver+"/"+s.Spec.Pool.Name] != node })
}

// remove takes a node away with the pools that it alone has, and returns its pods.
func (r *reference) remove(node string) []*corev1.Pod {
	own := r.own(node)
	gone := func(s *resourceapi.ResourceSlice) bool { return slices.Contains(own, s) }
	r.slices, r.unpublished = slices.DeleteFunc(slices.Clone(r.slices), gone), slices.DeleteFunc(slices.Clone(r.unpublished), gone)
	r.nodes = slices.DeleteFunc(r.nodes, func(n *corev1.Node) bool { return n.Name == node })
	var leaving []*corev1.Pod
	var stay []*placedPod
	for _, p := range r.pods {
		if p.node != node {
			stay = append(stay, p)
			continue
		}
		leaving = append(leaving, p.pod)
		for _, name := range p.claims {
			r.release(name, p.pod)
		}
	}
	r.pods = stay
	return leaving
}

func (r *reference) release(name string, pod *corev1.Pod) {
	claim := r.claims[name].DeepCopy()
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.Name == pod.Name })
	if len(claim.Status.ReservedFor) == 0 {
		claim.Status.Allocation = nil
	}
	r.claims[name] = claim
}

// evict takes a pod from its node. Claims that were made for it are gone.
func (r *reference) evict(placed *placedPod) {
	r.pods = slices.DeleteFunc(slices.Clone(r.pods), func(p *placedPod) bool { return p == placed })
	for _, name := range placed.claims {
		if r.release(name, placed.pod); name != "shared" {
			delete(r.claims, name)
		}
	}
}

// taint puts a taint on a device.
func (r *reference) taint(taint resourceapi.DeviceTaint, slice, device int) {
	patched := r.slices[slice].DeepCopy()
	patched.Spec.Devices[device].Taints = append(patched.Spec.Devices[device].Taints, taint)
	r.slices[slice] = patched
}

// sameResults compares what was allocated, share IDs aside.
func sameResults(t *testing.T, where string, got, want []resourceapi.AllocationResult) {
	t.Helper()
	plain := func(list []resourceapi.AllocationResult) []resourceapi.AllocationResult {
		all := make([]resourceapi.AllocationResult, len(list))
		for i := range list {
			all[i] = *list[i].DeepCopy()
			all[i].AllocationTimestamp = (*metav1.Time)(nil)
			for j := range all[i].Devices.Results {
				if d := &all[i].Devices.Results[j]; d.ShareID != nil {
					d.ShareID = nil
				}
			}
		}
		return all
	}
	if equality.Semantic.DeepEqual(plain(want), plain(got)) {
		return // comparing so is quick
	}
	if diff := cmp.Diff(plain(want), plain(got), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s: allocated (-step by step +simulated):\n%s", where, diff)
	}
}

// The reference takes a search that was given up as undecided, not as a no.
func TestReferenceIsUndecidedAfterGivenUpSearch(t *testing.T) {
	c := gpuCluster("a")
	for _, budget := range []int64{1, 0} {
		r := &reference{allocate: peer.DrayWith(allocator.Options{Budget: budget}), base: &alloctest.Case{Features: allocator.AllFeatures(), Classes: c.Classes}, nodes: c.Nodes, slices: c.Slices}
		claim := &resourceapi.ResourceClaim{Spec: c.Templates[1].Spec.Spec}
		claim.Namespace, claim.Name = "default", "claim"
		results, err := r.on(t.Context(), c.Nodes[0], nil, gpuPods("two", 1)[0], []*resourceapi.ResourceClaim{claim})
		if doubt := errors.Is(err, errDoubt); doubt != (budget == 1) || !doubt && (err != nil || len(results) != 1) {
			t.Errorf("with a budget of %d: %v, %v", budget, results, err)
		}
	}
}
