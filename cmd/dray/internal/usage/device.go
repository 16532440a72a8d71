// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// State says whether a device can be allocated.
type State string

// The states of a device.
const (
	// Held is a device that a claim holds. If the device can be shared, other claims may still get
	// it.
	Held State = "held"
	// Free is a device that a claim can get now.
	Free State = "free"
	// Stranded is a device that no claim holds and no claim can get now.
	Stranded State = "stranded"
)

// Cause is why a device is stranded.
type Cause string

// Causes in the order of precedence: a device counts for the first that applies.
const (
	// Unusable is a pool with missing or contradictory slices.
	Unusable Cause = "unusable pool"
	// NoNode is a device that no node reaches.
	NoNode Cause = "no node"
	// Cordoned is a device of nodes that are all cordoned.
	Cordoned Cause = "cordoned"
	// Tainted is a device with a taint that prevents allocation unless it is tolerated.
	Tainted Cause = "taints"
	// Counters is a device for which a shared counter is exhausted.
	Counters Cause = "counters"
	// Alignment is a device with too few free devices beside it: all claims and templates for it
	// request several that agree in an attribute.
	Alignment Cause = "alignment"
)

// Causes returns all causes in order.
func Causes() []Cause { return []Cause{Unusable, NoNode, Cordoned, Tainted, Counters, Alignment} }

// Device is the state of one device.
type Device struct {
	Pool  *cluster.PoolState
	State *cluster.DeviceState

	Is State
	// Cause and Detail say why the device is stranded. Detail is a sentence for users.
	Cause  Cause
	Detail string
	// Shares says that the device is held, and can be shared with another claim.
	Shares bool
}

// Inspect returns the state of each device of pools. pools must be the Inventory of all nodes.
func Inspect(c *cluster.Cluster, pools []cluster.PoolState) []Device {
	var devices []Device
	for i := range pools {
		pool := &pools[i]
		for k := range pool.Devices {
			devices = append(devices, inspect(c, pool, &pool.Devices[k]))
		}
	}
	align(c, devices)
	return devices
}

func inspect(c *cluster.Cluster, pool *cluster.PoolState, device *cluster.DeviceState) Device {
	d := Device{Pool: pool, State: device, Is: Free}
	strand := func(cause Cause, format string, args ...any) Device {
		d.Is, d.Cause, d.Detail = Stranded, cause, fmt.Sprintf(format, args...)
		return d
	}
	taint := slices.IndexFunc(device.Taints, func(t resourceapi.DeviceTaint) bool {
		return t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
	})
	switch {
	case len(device.Holders) > 0:
		d.Is, d.Shares = Held, device.Shared
	case pool.Incomplete+pool.Invalid != "":
		return strand(Unusable, "the pool cannot be used: %s", pool.Incomplete+pool.Invalid)
	case len(pool.Nodes) == 0:
		return strand(NoNode, "no node reaches the pool")
	case !slices.ContainsFunc(pool.Nodes, func(name string) bool { return takesPods(c.Node(name)) }):
		return strand(Cordoned, "all nodes that reach it are cordoned")
	case taint >= 0:
		return strand(Tainted, "it has the taint %s", taintText(device.Taints[taint]))
	case device.Blocked != "":
		return strand(Counters, "%s", device.Blocked)
	}
	return d
}

func takesPods(node *corev1.Node) bool { return node != nil && !node.Spec.Unschedulable }

func taintText(t resourceapi.DeviceTaint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}
