// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// Pod is how much an allocator can reuse from earlier pods.
type Pod string

// Kinds of pods, by how much can be reused, in decreasing order.
const (
	// EqualPod has claims equal to those of the previous pod, on unchanged nodes.
	EqualPod Pod = "equal"
	// NextPod has claims equal to those of the previous pod, whose devices are now in use.
	NextPod Pod = "next"
	// NewPod has new claims with known expressions, so that no result can be reused.
	NewPod Pod = "new"
	// SelectorPod has claims with new expressions. They read the same attributes as known ones.
	SelectorPod Pod = "new-selector"
	// FirstPod is the first pod of an allocator, with slices that the allocator has not seen.
	FirstPod Pod = "first"
)

// Claims returns the claims of the n-th pod: copies of the case's claims, varied according to the
// kind of pod. Variations do not change the result.
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
