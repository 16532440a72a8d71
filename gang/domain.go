// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/narrow"
	"github.com/dray-project/dray/pools"
)

// common is a constraint across the pods of a question.
type common struct {
	attribute resourceapi.FullyQualifiedName
	requests  []string
	// most is the limit of a DistinctLimit. It is 0 for a match: all devices have one value in common, alone or
	// in a list.
	most int
}

// Domain is the values of an attribute to which the devices of a group are limited.
type Domain struct {
	Attribute resourceapi.FullyQualifiedName
	// Values are CEL literals. With a match, each device has the value, alone or in a list. With a limit, no
	// device has other values.
	Values []string
}

// String is the attribute with its values.
func (d Domain) String() string {
	return string(d.Attribute) + " = " + strings.Join(d.Values, " or ")
}

// value is a value of an attribute, with the nodes that have devices with it.
type value struct {
	literal    string
	everywhere bool
	nodes      []int
	// devices is an upper bound on the number of pods that can have a free device with the value.
	devices int
}

// values lists the values of an attribute by the first node with such a device. Values of devices that several
// nodes may reach come first.
func (a *across) values(attribute resourceapi.FullyQualifiedName) []*value {
	if known, done := a.known[attribute]; done {
		return known
	}
	var list []*value
	of := make(map[string]*value)
	for pool := range a.State.Snapshot().Pools() {
		usage := a.State.Pool(pool)
		for device := range pool.Devices() {
			node, local := -1, false
			if name := device.Slice().Spec.NodeName; name != nil {
				if node, local = a.nodes[*name]; !local {
					continue
				}
			}
			free := 0
			if ptr.Deref(device.Object().AllowMultipleAllocations, false) {
				free = len(a.Pods)
			} else if usage.Obtainable(device) {
				free = 1
			}
			for _, literal := range narrow.Literals(pool.ID().Driver, device.Object(), attribute) {
				v := of[literal]
				if v == nil {
					v = &value{literal: literal}
					of[literal], list = v, append(list, v)
				}
				v.devices += free
				if v.everywhere = v.everywhere || !local; local && !slices.Contains(v.nodes[max(0, len(v.nodes)-1):], node) {
					v.nodes = append(v.nodes, node)
				}
			}
		}
	}
	first := func(v *value) int {
		if v.everywhere {
			return -1
		}
		return slices.Min(v.nodes)
	}
	slices.SortStableFunc(list, func(x, y *value) int { return cmp.Compare(first(x), first(y)) })
	a.known[attribute] = list
	return list
}

// HeldInCommon returns the values of an attribute, as CEL literals, that all devices of allocated claims have in common, alone or in a list.
// It is nil if the claims have no such devices, and not nil but empty if these do not agree. Requests are those that a constraint across pods
// covers, see extension.GroupMatch; all if there are none. Devices that are not in the snapshot are left out.
func HeldInCommon(snapshot *pools.Snapshot, claims []*resourceapi.ResourceClaim, attribute resourceapi.FullyQualifiedName, requests []string) []string {
	return inCommon(heldValues(snapshot, claims, attribute, requests))
}

// inCommon returns the values that are in all lists, nil if there is no list.
func inCommon(lists [][]string) []string {
	if len(lists) == 0 {
		return nil
	}
	return slices.DeleteFunc(append([]string{}, lists[0]...), func(value string) bool {
		return slices.ContainsFunc(lists[1:], func(other []string) bool { return !slices.Contains(other, value) })
	})
}

// held lists, for each held device that the constraint covers, its values.
func (a *across) held(c *common) [][]string {
	return heldValues(a.State.Snapshot(), a.Held, c.attribute, c.requests)
}

func heldValues(snapshot *pools.Snapshot, claims []*resourceapi.ResourceClaim, attribute resourceapi.FullyQualifiedName, requests []string) [][]string {
	var list [][]string
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if !extension.Covers(requests, result.Request) {
				continue
			}
			pool, found := snapshot.Pool(pools.PoolID{Driver: result.Driver, Name: result.Pool})
			if !found {
				continue // the device is gone, and its values are not known
			}
			for device := range pool.Lookup(result.Device) {
				list = append(list, narrow.Literals(result.Driver, device.Object(), attribute))
				break
			}
		}
	}
	return list
}

// domains calls a function with each set of values that the constraint permits, until it returns false. If
// there is none, the pods can do without these devices, and those that are held agree, the function is called
// once with the empty set.
func (a *across) domains(c *common, bound bool, do func([]*value) bool) {
	some := false
	a.sets(c, func(values []*value) bool {
		some = true
		return do(values)
	})
	if !some && !bound && c.agree(a.held(c)) {
		do(nil)
	}
}

// agree reports whether held devices keep to the constraint. Held has the values of each.
func (c *common) agree(held [][]string) bool {
	if c.most == 0 {
		return len(held) == 0 || len(inCommon(held)) > 0
	}
	all := slices.Concat(held...)
	slices.Sort(all)
	return len(slices.Compact(all)) <= c.most && !slices.ContainsFunc(held, func(of []string) bool { return len(of) == 0 })
}

func (a *across) sets(c *common, yield func([]*value) bool) {
	values, held := a.values(c.attribute), a.held(c)
	if c.most == 0 {
		for _, v := range values {
			if !slices.ContainsFunc(held, func(of []string) bool { return !slices.Contains(of, v.literal) }) && !yield([]*value{v}) {
				return
			}
		}
		return
	}
	has := slices.Concat(held...)
	if slices.ContainsFunc(held, func(of []string) bool { return len(of) == 0 }) {
		return // a held device has no value
	}
	var chosen, free []*value
	for _, v := range values {
		if slices.Contains(has, v.literal) {
			chosen = append(chosen, v)
		} else {
			free = append(free, v)
		}
	}
	if len(chosen) > c.most || len(values) == 0 {
		return
	}
	combine(chosen, free, min(c.most-len(chosen), len(free)), yield)
}

// combine calls a function with the chosen values and each combination of n others.
func combine(chosen, others []*value, n int, yield func([]*value) bool) bool {
	if n == 0 {
		return yield(slices.Clone(chosen))
	}
	for i := 0; i+n <= len(others); i++ {
		if !combine(append(slices.Clip(chosen), others[i]), others[i+1:], n-1, yield) {
			return false
		}
	}
	return true
}

// narrow limits the requests of claims to a domain. The claims are copied.
func (c *common) narrow(claims []*resourceapi.ResourceClaim, values []string) ([]*resourceapi.ResourceClaim, error) {
	filter := []narrow.Filter{{Attribute: c.attribute, Requests: c.requests, Values: values, Only: c.most > 0}}
	narrowed := make([]*resourceapi.ResourceClaim, len(claims))
	for i, claim := range claims {
		more, _ := extension.Of(claim) // whoever honours the annotation finds the error when the claim is compiled
		devices, more := narrow.Claim(&claim.Spec.Devices, more, filter)
		copied := *claim
		copied.Spec.Devices = *devices
		if len(more.Requests) > 0 {
			copied.Annotations = maps.Clone(claim.Annotations)
			if err := more.Annotate(&copied); err != nil {
				return nil, fmt.Errorf("claim %s: %w", keyOf(claim), err)
			}
		}
		narrowed[i] = &copied
	}
	return narrowed, nil
}

// binds reports whether a pod gets a device that the constraint covers, whichever alternatives it takes.
func (c *common) binds(pod *Pod) bool {
	return !slices.ContainsFunc(pod.Variants, func(claims []*resourceapi.ResourceClaim) bool {
		return !slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
			return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
				return extension.Covers(c.requests, r.Name) || len(r.FirstAvailable) > 0 && !slices.ContainsFunc(r.FirstAvailable, func(s resourceapi.DeviceSubRequest) bool {
					return !extension.Covers(c.requests, r.Name+"/"+s.Name)
				})
			})
		})
	})
}
