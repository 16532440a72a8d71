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

// State is whether a device can be had.
type State string

// The states of a device.
const (
	// Held is a device that a claim has. Of a shared one, more shares may be left.
	Held State = "held"
	// Free is a device that a claim could have now.
	Free State = "free"
	// Stranded is a device that nobody has and no claim could have now.
	Stranded State = "stranded"
)

// Cause is why a device is stranded.
type Cause string

// The causes, those that concern most first: a device counts for the first that it has.
const (
	// Unusable is a pool of which slices are missing or contradict each other.
	Unusable Cause = "unusable pool"
	// NoNode is a device that no node reaches.
	NoNode Cause = "no node"
	// Cordoned is a device of nodes that take no pods.
	Cordoned Cause = "cordoned"
	// Tainted is a taint with an effect that keeps claims away which do not tolerate it.
	Tainted Cause = "taints"
	// Counters is too little left of what the device draws on with others.
	Counters Cause = "counters"
	// Alignment is too few free devices beside it, of those that all claims and templates ask for together.
	Alignment Cause = "alignment"
)

// Causes lists all of them in their order.
func Causes() []Cause { return []Cause{Unusable, NoNode, Cordoned, Tainted, Counters, Alignment} }

// Device is what is found out about one device.
type Device struct {
	Pool  *cluster.PoolState
	State *cluster.DeviceState

	Is State
	// Cause and Detail say why it is stranded. Detail is a sentence for people.
	Cause  Cause
	Detail string
	// Shares is set if the device is held and more shares of it may be had.
	Shares bool
}

// Inspect finds out about each device of pools, as an Inventory of all nodes lists them.
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
