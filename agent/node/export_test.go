// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "k8s.io/utils/clock"

// SetClock has a controller that does not run yet tell the time by another clock.
func (n *NodeController) SetClock(c clock.PassiveClock) {
	n.clock = c
	if n.lease != nil {
		n.lease.clock = c
	}
}
