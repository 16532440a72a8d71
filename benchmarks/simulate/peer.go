// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// upstream uses Kubernetes' own allocator as cluster-autoscaler does. For each pod, it collects the
// devices of all claims, makes an allocator for all slices, and asks node by node.
type upstream struct {
	world    *world
	features structured.Features
	programs *cel.Cache
	nodes    []*corev1.Node
	slices   []*resourceapi.ResourceSlice
	claims   []*resourceapi.ResourceClaim
	specs    map[string]*resourceapi.ResourceClaimTemplate
}

func newUpstream(w *world) *upstream {
	u := &upstream{
		world: w, features: structured.Features(allocator.AllFeatures()), specs: make(map[string]*resourceapi.ResourceClaimTemplate),
		programs: cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}),
		nodes:    w.cluster.Nodes, slices: w.cluster.Slices, claims: w.cluster.Claims,
	}
	for _, template := range w.cluster.Templates {
		u.specs[template.Name] = template
	}
	return u
}

// Get implements the lister of device classes.
func (u *upstream) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range u.world.cluster.Classes {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("device class %s does not exist", name)
}

// List implements the lister of device classes.
func (u *upstream) List() ([]*resourceapi.DeviceClass, error) { return u.world.cluster.Classes, nil }

// used collects the devices of all claims.
func (u *upstream) used() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range u.claims {
		for _, result := range claim.Status.Allocation.Devices.Results {
			state.AllocatedDevices.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
		}
	}
	return state
}

// place places a pod on the first node where it fits, and returns the node's name.
func (u *upstream) place(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (string, error) {
	a, err := structured.NewAllocator(ctx, u.features, u.used(), u, u.slices, u.programs)
	if err != nil {
		return "", err
	}
	claim := &resourceapi.ResourceClaim{Spec: u.specs[*pod.Spec.ResourceClaims[0].ResourceClaimTemplateName].Spec.Spec}
	claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-devices"
	for _, node := range nodes {
		results, err := a.Allocate(ctx, node, []*resourceapi.ResourceClaim{claim})
		if err != nil {
			return "", err
		}
		if results != nil {
			claim.Status.Allocation = &results[0]
			u.claims = append(u.claims, claim)
			return node.Name, nil
		}
	}
	return "", nil
}

// pack places a pod on the fullest node where it fits, and returns the node's name. Of several, it
// is the first.
func (u *upstream) pack(ctx context.Context, pod *corev1.Pod) (string, error) {
	devices, used := make(map[string]int), make(map[string]int)
	for _, slice := range u.slices {
		devices[slice.Spec.Pool.Name] += len(slice.Spec.Devices)
	}
	for _, claim := range u.claims {
		for _, result := range claim.Status.Allocation.Devices.Results {
			used[result.Pool]++
		}
	}
	share := func(n *corev1.Node) float64 { return float64(used[n.Name]) / float64(devices[n.Name]) } // pools have the names of nodes
	fullest := slices.Clone(u.nodes)
	slices.SortStableFunc(fullest, func(x, y *corev1.Node) int { return cmp.Compare(share(y), share(x)) })
	return u.place(ctx, pod, fullest)
}

// gang places pods on the nodes of the first domain where all of them fit, and returns the nodes.
// If there is none, it returns no nodes. Nodes of a domain have equal values of the labels. perNode
// limits the pods on a node; 0 stands for no limit.
func (u *upstream) gang(ctx context.Context, pod *corev1.Pod, pods, perNode int, labels ...string) ([]string, error) {
	var order []string
	domains := make(map[string][]*corev1.Node)
	for _, node := range u.nodes {
		key := ""
		for _, label := range labels {
			key += node.Labels[label] + "/"
		}
		if domains[key] == nil {
			order = append(order, key)
		}
		domains[key] = append(domains[key], node)
	}
	before := u.claims
	for _, key := range order {
		left, on, names := slices.Clone(domains[key]), make(map[string]int), []string(nil)
		for range pods {
			name, err := u.place(ctx, pod, left)
			if err != nil {
				return nil, err
			}
			if name == "" {
				break
			}
			if on[name]++; on[name] == perNode {
				left = filter(left, func(n *corev1.Node) bool { return n.Name != name })
			}
			names = append(names, name)
		}
		if len(names) == pods {
			return names, nil
		}
		u.claims = slices.Clip(before)
	}
	return nil, nil
}

// addNode adds a node from a template: copies of its objects with new names.
func (u *upstream) addNode(spec simulate.TemplateSpec, n int) *corev1.Node {
	node := spec.Node.DeepCopy()
	node.Name = fmt.Sprintf("%s-new-%d", spec.Node.Name, n)
	for _, slice := range spec.Slices {
		slice = slice.DeepCopy()
		slice.Name, slice.Spec.NodeName = fmt.Sprintf("%s-new-%d", slice.Name, n), ptr.To(node.Name)
		slice.Spec.Pool.Name = fmt.Sprintf("%s-new-%d", slice.Spec.Pool.Name, n)
		u.slices = append(u.slices[:len(u.slices):len(u.slices)], slice)
	}
	return node
}

// without removes a node with its slices, and returns its pods.
func (u *upstream) without(node string) []*corev1.Pod {
	gone := make(map[string]bool)
	var pods []*corev1.Pod
	for _, pod := range u.world.cluster.Pods {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
			gone[pod.Name+"-devices"] = true
		}
	}
	u.claims = filter(u.claims, func(c *resourceapi.ResourceClaim) bool { return !gone[c.Name] })
	u.slices = filter(u.slices, func(s *resourceapi.ResourceSlice) bool { return *s.Spec.NodeName != node })
	u.nodes = filter(u.nodes, func(n *corev1.Node) bool { return n.Name != node })
	return pods
}

func filter[T any](list []T, keep func(T) bool) []T {
	var kept []T
	for _, element := range list {
		if keep(element) {
			kept = append(kept, element)
		}
	}
	return kept
}
