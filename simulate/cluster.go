// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate/internal/lists"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Cluster is the input: the objects of a real or invented cluster. Lists may be nil. Objects are kept by
// pointer, and are not modified. The caller must not modify them while a State of the cluster is in use.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods with a node use their claims and the node's resources; without one they are pending.
	Pods   []*corev1.Pod
	Slices []*resourceapi.ResourceSlice
	// Claims may be allocated or not. Their users are the pods that refer to them, and the consumers in
	// status.reservedFor.
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	Classes   []*resourceapi.DeviceClass
	PodGroups []*schedulingapi.PodGroup
	// TaintRules add taints to devices of the slices.
	TaintRules []*resourceapi.DeviceTaintRule
}

// check returns an error if an object is nil.
func (c *Cluster) check() error {
	for _, list := range []struct {
		of      string
		lacking bool
	}{
		{"node", slices.Contains(c.Nodes, nil)},
		{"pod", slices.Contains(c.Pods, nil)},
		{"slice", slices.Contains(c.Slices, nil)},
		{"claim", slices.Contains(c.Claims, nil)},
		{"claim template", slices.Contains(c.Templates, nil)},
		{"class", slices.Contains(c.Classes, nil)},
		{"pod group", slices.Contains(c.PodGroups, nil)},
		{"taint rule", slices.Contains(c.TaintRules, nil)},
	} {
		if list.lacking {
			return fmt.Errorf("a %s is nil", list.of)
		}
	}
	return nil
}

// DefaultBudget is the largest number of search steps of one call, if Options.Budget is not set.
const DefaultBudget = 20 * allocator.DefaultBudget

// Options of a State.
type Options struct {
	Features allocator.Features
	// NodeFit tells whether a pod may run on a node whatever devices and resources the node has.
	NodeFit NodeFit
	// DevicePolicy and Topology are Policy and Topology of the allocator: which of the devices of a node
	// a pod gets. Nil is allocator.FirstFit, with the devices that kube-scheduler takes.
	DevicePolicy allocator.Remembered
	Topology     []resourceapi.FullyQualifiedName
	// Budget is the largest number of search steps of one call; equal nodes are searched once. Nodes that are
	// not searched are undecided. Zero or less is DefaultBudget.
	Budget int64
	// Strict makes the first fault of the input an error of Open. Otherwise a faulty object is ignored, and
	// State.Faults lists it.
	Strict bool
	// Memory bounds the caches that calls share.
	Memory MemoryOptions
	// RefuseNotLookedAt makes a pod an error if kube-scheduler checks something of it that a simulation does
	// not, see nodefit.NotLookedAt. Otherwise Result.NotLookedAt lists such pods.
	RefuseNotLookedAt bool
	// Extensions lets an annotation of a claim ask for more than the API can express, see package extension.
	// kube-scheduler ignores that annotation. Pods with a claim whose annotation is faulty are an error.
	Extensions bool
	// GangsOneByOne makes Gang place pods one after the other only. Gangs whose pods fit only if they are
	// solved together are then not placed.
	GangsOneByOne bool
}

// MemoryOptions bound the caches that are shared by all States of one Open and its updates. A full cache drops
// entries. Answers do not depend on the bounds, except where the budget runs out. A bound of zero or less is
// the default.
type MemoryOptions struct {
	// Off disables all caches except that of compiled expressions. It is for tests and for measuring what the
	// caches save.
	Off bool
	// Questions is the number of different claims, and of combinations of claims, that are kept. The default is
	// 32,768.
	Questions int
	// Kinds is the number of kinds of pods that are kept, each with its results for nodes. The default is
	// 4,096.
	Kinds int
	// Nodes is the number of nodes with different devices that are kept. The default is 131,072.
	Nodes int
	// States is the number of states of nodes that are kept: equal devices with equal use. The default is
	// 65,536.
	States int
	// Answers is the number of answers that are kept for one state. The default is 1,024, the minimum 32.
	Answers int
	// Total is how many states and answers are kept of all nodes together. The default is 1,048,576, which takes about
	// 200 MB.
	Total int
}

// usualMemory has the defaults. Tests replace it.
var usualMemory = MemoryOptions{Questions: 1 << 15, Kinds: 1 << 12, Nodes: 1 << 17, States: 1 << 16, Answers: 1 << 10, Total: 1 << 20}

// withDefaults returns the bounds with defaults for those not set, or only Off.
func (o MemoryOptions) withDefaults() MemoryOptions {
	if o.Off || usualMemory.Off {
		return MemoryOptions{Off: true}
	}
	for _, bound := range []struct {
		of      *int
		usually int
	}{
		{&o.Questions, usualMemory.Questions}, {&o.Kinds, usualMemory.Kinds},
		{&o.Nodes, usualMemory.Nodes}, {&o.States, usualMemory.States}, {&o.Answers, usualMemory.Answers}, {&o.Total, usualMemory.Total},
	} {
		if *bound.of <= 0 {
			*bound.of = bound.usually
		}
	}
	return o
}

func (o MemoryOptions) bounds() onenode.Bounds {
	return onenode.Bounds{Questions: o.Questions, Nodes: o.Nodes, States: o.States, Answers: o.Answers, Total: o.Total}
}

// NodeFit is a rule about which pods may run on which nodes, apart from devices and resources. The zero value
// is nodefit.Fits with nodefit.Key: taints, node selector and node affinity.
type NodeFit struct {
	// Fits reports whether a pod may run on a node. It is called once per kind of pods and node. So the result
	// must be a function of the pod's key and the node. An error for an empty node is an error of the pod; any
	// later error counts as false. Nil is nodefit.Fits.
	Fits func(pod *corev1.Pod, node *corev1.Node) (bool, error)
	// Key covers what Fits reads of a pod. If it is nil, pods share an answer if they differ in metadata.name,
	// uid, resourceVersion, managedFields and status only. Fits must not read these then. Pods with other
	// labels, owners or creation times are then checked separately. Key is ignored if Fits is nil.
	Key func(pod *corev1.Pod) string
}

// complete returns the rule with both functions set.
func (f NodeFit) complete() NodeFit {
	switch {
	case f.Fits == nil:
		return NodeFit{Fits: nodefit.Fits, Key: nodefit.Key}
	case f.Key == nil:
		f.Key = wholePod
	}
	return f
}

// wholePod is the default key: the pod without the fields that differ between equal pods.
func wholePod(pod *corev1.Pod) string {
	same := corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	same.Name, same.UID, same.ResourceVersion, same.ManagedFields = "", types.UID(""), "", nil
	k := memo.NewKey()
	keys.AppendWhole(&k, &same)
	return string(k.Bytes)
}

// Fault is an object of the input that was ignored because it is faulty.
type Fault struct { //nolint:errname // a fault of the input, listed with others
	// Object has kind, namespace and name.
	Object string
	Err    error
}

// Error implements error.
func (f Fault) Error() string { return fmt.Sprintf("%s: %v", f.Object, f.Err) }

// Unwrap returns Err.
func (f Fault) Unwrap() error { return f.Err }

// Changes are changes of a cluster's objects, as an informer reports them. Objects are identified by kind,
// namespace and name.
type Changes struct {
	// Gone are deleted objects. Only their namespace and name are read. Unknown ones are ignored.
	Gone Cluster
	// Set are created or updated objects. Of several with one name, the last one counts. An object in both
	// lists was deleted and created again.
	Set Cluster
}

// lastOfEach returns the cluster without objects that a later one of the same name replaces.
func (c *Cluster) lastOfEach() Cluster {
	return Cluster{
		Nodes: lists.LastOfEach(c.Nodes), Pods: lists.LastOfEach(c.Pods), Slices: lists.LastOfEach(c.Slices), Claims: lists.LastOfEach(c.Claims),
		Templates: lists.LastOfEach(c.Templates), Classes: lists.LastOfEach(c.Classes), PodGroups: lists.LastOfEach(c.PodGroups), TaintRules: lists.LastOfEach(c.TaintRules),
	}
}

// fewChanges is how many objects may change in a cluster of any size before it is read again as a whole.
const fewChanges = 1 << 10

// small reports whether nothing but pods and claims changes.
func (c *Changes) small() bool {
	for _, list := range []*Cluster{&c.Gone, &c.Set} {
		if len(list.Nodes)+len(list.Slices)+len(list.Templates)+len(list.Classes)+len(list.PodGroups)+len(list.TaintRules) > 0 {
			return false
		}
	}
	return true
}

// input is the objects that a world was read from: the lists as first read, and later changes.
type input struct {
	read Cluster
	last *change
	// changed is the number of objects in all changes.
	changed int
}

// change is a linked list of Changes, newest first.
type change struct {
	Changes
	before *change
}

// newInput copies the lists of a cluster, as the caller may change these.
func newInput(c *Cluster) *input {
	return &input{read: Cluster{
		Nodes: slices.Clone(c.Nodes), Pods: slices.Clone(c.Pods), Slices: slices.Clone(c.Slices), Claims: slices.Clone(c.Claims),
		Templates: slices.Clone(c.Templates), Classes: slices.Clone(c.Classes), PodGroups: slices.Clone(c.PodGroups), TaintRules: slices.Clone(c.TaintRules),
	}}
}

// with returns the input with further changes.
func (in *input) with(c Changes) *input {
	n := 0
	for _, list := range []*Cluster{&c.Gone, &c.Set} {
		n += len(list.Pods) + len(list.Claims)
	}
	return &input{read: in.read, last: &change{c, in.last}, changed: in.changed + n}
}

// cluster returns the lists of objects with all changes applied.
func (in *input) cluster() Cluster {
	c := &in.read
	return Cluster{
		Nodes:      after(in, c.Nodes, func(c *Cluster) []*corev1.Node { return c.Nodes }, nil),
		Pods:       after(in, c.Pods, func(c *Cluster) []*corev1.Pod { return c.Pods }, onSameNode),
		Slices:     after(in, c.Slices, func(c *Cluster) []*resourceapi.ResourceSlice { return c.Slices }, nil),
		Claims:     after(in, c.Claims, func(c *Cluster) []*resourceapi.ResourceClaim { return c.Claims }, nil),
		Templates:  after(in, c.Templates, func(c *Cluster) []*resourceapi.ResourceClaimTemplate { return c.Templates }, nil),
		Classes:    after(in, c.Classes, func(c *Cluster) []*resourceapi.DeviceClass { return c.Classes }, nil),
		PodGroups:  after(in, c.PodGroups, func(c *Cluster) []*schedulingapi.PodGroup { return c.PodGroups }, nil),
		TaintRules: after(in, c.TaintRules, func(c *Cluster) []*resourceapi.DeviceTaintRule { return c.TaintRules }, nil),
	}
}

// after applies the changes to one of the lists.
func after[T lists.Object](in *input, list []T, of func(*Cluster) []T, stays func(before, after T) bool) []T {
	var all []lists.Change[T]
	for c := in.last; c != nil; c = c.before {
		if gone, set := of(&c.Gone), of(&c.Set); len(gone)+len(set) > 0 {
			all = append(all, lists.Change[T]{Gone: gone, Set: set})
		}
	}
	slices.Reverse(all)
	return lists.After(list, all, stays)
}

// onSameNode reports whether a changed pod keeps its position in the list: it still runs on the same node.
func onSameNode(before, after *corev1.Pod) bool {
	return nodefit.Occupies(before) && nodefit.Occupies(after) && before.Spec.NodeName == after.Spec.NodeName
}
