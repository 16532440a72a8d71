// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// mostChoices is how many combinations of alternatives of a unit are tried one by one. With more, the order of
// the allocator decides.
const mostChoices = 64

// choice is the chosen alternative of each request that has several, in order. Nil leaves the choice to the
// allocator.
type choice []int

// divide divides the pods into units, and the units into kinds.
func (a *asker) divide() {
	parent, first := make([]int, len(a.Pods)), make(map[claimKey]int)
	root := func(pod int) int {
		for parent[pod] != pod {
			pod = parent[pod]
		}
		return pod
	}
	for i := range a.Pods {
		parent[i] = i
		for _, claims := range a.Pods[i].Variants {
			for _, claim := range claims {
				if with, shared := first[keyOf(claim)]; shared {
					one, other := root(with), root(i)
					parent[max(one, other)] = min(one, other)
				} else {
					first[keyOf(claim)] = i
				}
			}
		}
	}
	position := make(map[int]int)
	for i := range a.Pods {
		at, known := position[root(i)]
		if !known {
			at = len(a.units)
			position[root(i)] = at
			a.units = append(a.units, unit{})
		}
		a.units[at].pods = append(a.units[at].pods, i)
		a.unitOf = append(a.unitOf, at)
	}
	kinds := make(map[string]int)
	for u := range a.units {
		first := a.Pods[a.units[u].pods[0]].Kind
		at, known := kinds[first]
		if !known || first == "" || len(a.units[u].pods) > 1 {
			at = len(a.kinds)
			a.kinds = append(a.kinds, kind{choices: a.choices(a.units[u].pods), admin: a.asksForAdmin(a.units[u].pods)})
			if len(a.units[u].pods) == 1 {
				kinds[first] = at
			}
		}
		a.units[u].kind = at
		a.kinds[at].units = append(a.kinds[at].units, u)
	}
}

// asksForAdmin reports whether pods ask for admin access.
func (a *asker) asksForAdmin(pods []int) bool {
	return slices.ContainsFunc(pods, func(pod int) bool {
		return slices.ContainsFunc(a.Pods[pod].Variants, func(claims []*resourceapi.ResourceClaim) bool { return slices.ContainsFunc(claims, claimAsksForAdmin) })
	})
}

// claimAsksForAdmin reports whether a claim asks for admin access.
func claimAsksForAdmin(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
		return r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false)
	})
}

// compareByAdmin sorts kinds with admin access behind the others. In one problem, claims with admin access would
// otherwise exclude later ones from their devices.
func (a *asker) compareByAdmin(x, y int) int {
	switch {
	case a.kinds[x].admin == a.kinds[y].admin:
		return 0
	case a.kinds[x].admin:
		return 1
	}
	return -1
}

// choices lists the combinations of alternatives of pods. Those of the first request matter most.
func (a *asker) choices(pods []int) []choice {
	list := []choice{{}}
	for _, claim := range a.claimsOf(pods, nil) {
		for _, request := range claim.Spec.Devices.Requests {
			n := len(request.FirstAvailable)
			if n < 2 {
				continue
			}
			if len(list)*n > mostChoices {
				return []choice{nil}
			}
			var longer []choice
			for _, chosen := range list {
				for alternative := range n {
					longer = append(longer, append(slices.Clone(chosen), alternative))
				}
			}
			list = longer
		}
	}
	for _, pod := range pods {
		if len(a.Pods[pod].Variants) > 1 {
			return []choice{nil} // the alternatives depend on the node
		}
	}
	if len(list) == 1 {
		return []choice{nil}
	}
	return list
}

// claimsOf lists the claims of pods, without duplicates, in order. Variants are by pod; nil means the first.
func (a *asker) claimsOf(pods, variants []int) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for i, pod := range pods {
		v := 0
		if variants != nil {
			v = variants[i]
		}
		for _, claim := range a.Pods[pod].Variants[v] {
			if len(pods) == 1 || !slices.ContainsFunc(list, func(c *resourceapi.ResourceClaim) bool { return keyOf(c) == keyOf(claim) }) {
				list = append(list, claim)
			}
		}
	}
	return list
}

// unitOn lists the claims of a unit on a node with its choice, and a key that identifies the variants. It is
// false if a pod of the unit cannot run there.
func (a *asker) unitOn(u, node int, chosen choice) (claims []*resourceapi.ResourceClaim, key string, ok bool) {
	pods := a.units[u].pods
	variants := make([]int, len(pods))
	var text strings.Builder
	for i, pod := range pods {
		if variants[i] = a.variant(pod, node); variants[i] < 0 {
			return nil, "", false
		}
		text.WriteString(strconv.Itoa(variants[i]))
		text.WriteByte(' ')
	}
	return chosen.pin(a.claimsOf(pods, variants)), text.String(), true
}

// pin returns the claims with only the chosen alternative of each request that has several.
func (c choice) pin(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	if c == nil {
		return claims
	}
	pinned := slices.Clone(claims)
	for i, claim := range claims {
		for r := range claim.Spec.Devices.Requests {
			alternatives := claim.Spec.Devices.Requests[r].FirstAvailable
			if len(alternatives) < 2 {
				continue
			}
			if pinned[i] == claim {
				pinned[i] = claim.DeepCopy()
			}
			keepAlternative(&pinned[i].Spec.Devices, r, c[0])
			c = c[1:]
		}
	}
	return pinned
}

// keepAlternative removes all alternatives of a request except one. Constraints and configurations that only cover removed
// ones are removed, too.
func keepAlternative(d *resourceapi.DeviceClaim, request, chosen int) {
	r := &d.Requests[request]
	gone := func(name string) bool {
		parent, alternative, is := strings.Cut(name, "/")
		return is && parent == r.Name && alternative != r.FirstAvailable[chosen].Name
	}
	about := func(names *[]string) bool {
		some := len(*names) > 0
		*names = slices.DeleteFunc(*names, gone)
		return some && len(*names) == 0
	}
	d.Constraints = slices.DeleteFunc(d.Constraints, func(c resourceapi.DeviceConstraint) bool { return about(&c.Requests) })
	d.Config = slices.DeleteFunc(d.Config, func(c resourceapi.DeviceClaimConfiguration) bool { return about(&c.Requests) })
	r.FirstAvailable = r.FirstAvailable[chosen : chosen+1]
}
