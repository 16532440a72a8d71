// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"slices"
	"testing"
)

// A group is said to get as many devices as in the placement where most of its pods get them, whichever was tried first.
func TestOutlookIsThatOfTheBestPlacement(t *testing.T) {
	outlooks := []outlook{{"2 pods here", 2}, {"3 pods there", 3}, {"", 0}, {"3 pods here", 3}, {"1 pod", 1}}
	for range outlooks {
		outlooks = append(outlooks[1:], outlooks[0])
		backward := slices.Clone(outlooks)
		slices.Reverse(backward)
		for _, order := range [][]outlook{outlooks, backward} {
			c := newCycle()
			for _, o := range order {
				c.attempts = append(c.attempts, &attempt{first: &Member{}, outlook: o})
			}
			c.attempts = append(c.attempts, &attempt{outlook: outlook{"9 pods that need no devices", 9}})
			if got := c.Outlook(); got != "3 pods here" {
				t.Errorf("%v: %q", order, got)
			}
		}
	}
}
