// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// Pod says what is known when a pod is asked about.
type Pod string

// What may be known, from everything to nothing.
const (
	// EqualPod has claims like those of the pod before, on nodes that did not change.
	EqualPod Pod = "equal"
	// NextPod has claims like those of the pod before, which has got its devices.
	NextPod Pod = "next"
	// NewPod has claims that nobody asked for yet, with expressions that are known: no
	// answer is remembered.
	NewPod Pod = "new"
	// SelectorPod has claims with expressions that nobody used yet. They read what known
	// ones do.
	SelectorPod Pod = "new-selector"
	// FirstPod is the first one ever that an allocator sees, of slices it has not seen.
	FirstPod Pod = "first"
)

// Claims are those of the n-th pod: copies of the claims of the case, varied as the kind
// of pod has it. Variations make no difference to the devices.
func (p Pod) Claims(c *alloctest.Case, n int) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for _, claim := range c.Claims {
		claim = claim.DeepCopy()
		claim.Name = fmt.Sprintf("%s-%d", claim.Name, n)
		for i := range claim.Spec.Devices.Requests {
			p.vary(&claim.Spec.Devices.Requests[i], n)
		}
		claims = append(claims, claim)
	}
	return claims
}

func (p Pod) vary(r *resourceapi.DeviceRequest, n int) {
	if r.Exactly != nil {
		p.varyTerms(&r.Exactly.Tolerations, &r.Exactly.Selectors, n)
	}
	for i := range r.FirstAvailable {
		p.varyTerms(&r.FirstAvailable[i].Tolerations, &r.FirstAvailable[i].Selectors, n)
	}
}

func (p Pod) varyTerms(tolerations *[]resourceapi.DeviceToleration, selectors *[]resourceapi.DeviceSelector, n int) {
	switch p {
	case NewPod:
		*tolerations = append(*tolerations, resourceapi.DeviceToleration{
			Key: fmt.Sprintf("example.com/pod-%d", n), Operator: resourceapi.DeviceTolerationOpExists,
		})
	case SelectorPod, FirstPod:
		other := fmt.Sprintf("device.driver != %q", fmt.Sprintf("pod-%d", n))
		if len(*selectors) == 0 {
			*selectors = selecting(other)
			return
		}
		cel := *(*selectors)[0].CEL
		cel.Expression += " && " + other
		(*selectors)[0].CEL = &cel
	}
}
