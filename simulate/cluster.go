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

// Cluster is input. Nil lists are empty. Objects are kept by pointer, not modified, and must not be
// modified by others as long as a State of the cluster is in use.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods with a node use their claims and the node's resources; without one they are pending.
	Pods   []*corev1.Pod
	Slices []*resourceapi.ResourceSlice
	// Claims may be allocated or not. Those who use them are the pods that refer to them, and
	// others that are listed in status.reservedFor.
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	Classes   []*resourceapi.DeviceClass
	PodGroups []*schedulingapi.PodGroup
	// TaintRules add taints to devices of the slices.
	TaintRules []*resourceapi.DeviceTaintRule
}

// check reports objects that are not there.
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

// DefaultBudget is how many search steps one call spends at most.
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
	// Budget is how many search steps one call spends at most; equal nodes are searched once.
	// Nodes that are not searched are undecided. Zero or less is DefaultBudget.
	Budget int64
	// Strict makes the first fault of the input an error of Open. Otherwise what is faulty is left
	// out, and listed by State.Faults.
	Strict bool
	// Memory bounds what is remembered between calls.
	Memory MemoryOptions
	// RefuseNotLookedAt makes pods an error that ask for something which kube-scheduler looks at and a simulation does
	// not, see nodefit.NotLookedAt. Otherwise Result.NotLookedAt tells it.
	RefuseNotLookedAt bool
	// Extensions has claims ask for what their annotation says, too: see package extension.
	// kube-scheduler does not know it. A faulty annotation makes pods with the claim an error.
	Extensions bool
	// GangsOneByOne has Gang place pods one after the other only, and no gang of which the pods fit only together.
	GangsOneByOne bool
}

// MemoryOptions bound what all States of one Open, and of its updates, remember from one call to the next. What there would be
// too much of is forgotten. Answers do not depend on it, but for those that the budget ends. Of a number, zero or less is the
// default.
type MemoryOptions struct {
	// Off has nothing remembered but compiled expressions. It is for tests, and for those who want to know what
	// remembering saves.
	Off bool
	// Questions is how many different claims, and questions of several claims, are kept. The default is 32,768.
	Questions int
	// Kinds is how many kinds of pods are kept, with what is known of them for each node. The default is 4,096.
	Kinds int
	// Nodes is how many nodes are told apart by their devices. The default is 131,072.
	Nodes int
	// States is how many states of equal nodes are kept: what is in use. The default is 65,536.
	States int
	// Answers is how many answers are kept about one state. The default is 1,024, the least 32.
	Answers int
	// Total is how many states and answers are kept of all nodes together. The default is 1,048,576, which takes about
	// 200 MB.
	Total int
}

// usualMemory has the defaults. Tests change them.
var usualMemory = MemoryOptions{Questions: 1 << 15, Kinds: 1 << 12, Nodes: 1 << 17, States: 1 << 16, Answers: 1 << 10, Total: 1 << 20}

// withDefaults has defaults for what is not set, and no bounds that are off.
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

// NodeFit is a rule about pods and nodes, whatever devices and resources the nodes have. The zero value is
// nodefit.Fits with nodefit.Key: taints, node selector and node affinity.
type NodeFit struct {
	// Fits tells whether a pod may run on a node. It is asked once per kind of pods and node, and so must give
	// equal answers for pods with equal keys, and for one node. An error about a node without anything is one
	// about the pod; later ones are a no. Nil is nodefit.Fits.
	Fits func(pod *corev1.Pod, node *corev1.Node) (bool, error)
	// Key is what Fits reads of a pod. Without it, answers are shared by pods that differ in nothing but
	// metadata.name, uid, resourceVersion, managedFields and status, of which Fits then must read nothing: so
	// pods with other labels, owners or times of creation are asked about by themselves. Without Fits it is not asked.
	Key func(pod *corev1.Pod) string
}

// complete is the rule with both functions.
func (f NodeFit) complete() NodeFit {
	switch {
	case f.Fits == nil:
		return NodeFit{Fits: nodefit.Fits, Key: nodefit.Key}
	case f.Key == nil:
		f.Key = wholePod
	}
	return f
}

// wholePod is a pod without what tells it from its equals.
func wholePod(pod *corev1.Pod) string {
	same := corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	same.Name, same.UID, same.ResourceVersion, same.ManagedFields = "", types.UID(""), "", nil
	k := memo.NewKey()
	keys.AppendWhole(&k, &same)
	return string(k.Bytes)
}

// Fault is wrong input that was left out.
type Fault struct { //nolint:errname // a fault of the input, listed with others
	// Object is kind, namespace and name.
	Object string
	Err    error
}

// Error implements error.
func (f Fault) Error() string { return fmt.Sprintf("%s: %v", f.Object, f.Err) }

// Unwrap returns Err.
func (f Fault) Unwrap() error { return f.Err }

// Changes are what happened to the objects of a cluster, as an informer tells it. An object is known by its kind, namespace and
// name.
type Changes struct {
	// Gone are objects that no longer exist. Only namespace and name of them are read. Those that are not there make no difference.
	Gone Cluster
	// Set are objects that are new, or in the place of those of the same name. Of several with one name, the last one counts.
	// An object that is gone and set was made again.
	Set Cluster
}

// lastOfEach is a cluster without objects of which another one with the same name follows.
func (c *Cluster) lastOfEach() Cluster {
	return Cluster{
		Nodes: lists.LastOfEach(c.Nodes), Pods: lists.LastOfEach(c.Pods), Slices: lists.LastOfEach(c.Slices), Claims: lists.LastOfEach(c.Claims),
		Templates: lists.LastOfEach(c.Templates), Classes: lists.LastOfEach(c.Classes), PodGroups: lists.LastOfEach(c.PodGroups), TaintRules: lists.LastOfEach(c.TaintRules),
	}
}

// fewChanges is how many objects may change in any cluster before all of it is read again.
const fewChanges = 1 << 10

// small reports whether only pods and claims change.
func (c *Changes) small() bool {
	for _, list := range []*Cluster{&c.Gone, &c.Set} {
		if len(list.Nodes)+len(list.Slices)+len(list.Templates)+len(list.Classes)+len(list.PodGroups)+len(list.TaintRules) > 0 {
			return false
		}
	}
	return true
}

// input is the objects that a world was read from: lists, and what changed since.
type input struct {
	read Cluster
	last *change
	// changed is how many objects did.
	changed int
}

// change is Changes, and those before.
type change struct {
	Changes
	before *change
}

// newInput keeps the lists of a cluster, which belong to the caller.
func newInput(c *Cluster) *input {
	return &input{read: Cluster{
		Nodes: slices.Clone(c.Nodes), Pods: slices.Clone(c.Pods), Slices: slices.Clone(c.Slices), Claims: slices.Clone(c.Claims),
		Templates: slices.Clone(c.Templates), Classes: slices.Clone(c.Classes), PodGroups: slices.Clone(c.PodGroups), TaintRules: slices.Clone(c.TaintRules),
	}}
}

// with is the input after changes.
func (in *input) with(c Changes) *input {
	n := 0
	for _, list := range []*Cluster{&c.Gone, &c.Set} {
		n += len(list.Pods) + len(list.Claims)
	}
	return &input{read: in.read, last: &change{c, in.last}, changed: in.changed + n}
}

// cluster lists the objects.
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

// after is one of the lists.
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

// onSameNode reports whether a pod that changed keeps its place.
func onSameNode(before, after *corev1.Pod) bool {
	return nodefit.Occupies(before) && nodefit.Occupies(after) && before.Spec.NodeName == after.Spec.NodeName
}
