package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// PoolState is a pool and what is left of it.
type PoolState struct {
	Driver     string `json:"driver"`
	Pool       string `json:"pool"`
	Generation int64  `json:"generation"`
	// Slices is how many slices of the generation there are, SliceCount how many
	// there should be.
	Slices     int64 `json:"slices"`
	SliceCount int64 `json:"resourceSliceCount"`
	// Nodes are those which reach the pool, in the order of the cluster.
	Nodes []string `json:"nodes"`
	// Incomplete and Invalid say why nothing can be allocated from the pool.
	Incomplete  string            `json:"incomplete,omitempty"`
	Invalid     string            `json:"invalid,omitempty"`
	CounterSets []CounterSetState `json:"counterSets,omitempty"`
	Devices     []DeviceState     `json:"devices"`
}

// CounterSetState is a counter set and what its devices in use leave of it.
type CounterSetState struct {
	Name     string        `json:"name"`
	Counters []AmountState `json:"counters"`
}

// AmountState is a counter or capacity. Left may be negative if more is in use than
// there is.
type AmountState struct {
	Name  string            `json:"name"`
	Left  resource.Quantity `json:"left"`
	Total resource.Quantity `json:"total"`
}

// DeviceState is a device and who has it.
type DeviceState struct {
	Name       string                                                    `json:"name"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	// Capacity has what is left only for devices that can be shared.
	Capacity []AmountState             `json:"capacity,omitempty"`
	Shared   bool                      `json:"allowMultipleAllocations,omitempty"`
	Taints   []resourceapi.DeviceTaint `json:"taints,omitempty"`
	Holders  []HolderState             `json:"heldBy,omitempty"`
}

// HolderState is a claim that holds a device, once per request.
type HolderState struct {
	Claim   string `json:"claim"` // namespace/name
	Request string `json:"request"`
	// Consumers are the pods that the claim is reserved for.
	Consumers []string `json:"reservedFor,omitempty"`
}

// Inventory lists the pools that nodes reach, by driver and name. With a node, only
// what this node reaches is listed. The error is about a node selector of a slice.
func (c *Cluster) Inventory(node *corev1.Node) ([]PoolState, error) {
	reached, err := c.reach(node)
	if err != nil {
		return nil, err
	}
	var states []PoolState
	for _, pool := range c.Snapshot.Pools() {
		r := reached[pool.ID]
		if r == nil && node != nil {
			continue
		}
		if r == nil {
			r = &reach{}
		}
		states = append(states, c.poolState(pool, r, node != nil))
	}
	return states, nil
}

// reach is what nodes see of one pool.
type reach struct {
	nodes   []string
	invalid string
	devices map[pools.DeviceIndex]bool
}

// reach looks from the node, or from all nodes.
func (c *Cluster) reach(only *corev1.Node) (map[pools.PoolID]*reach, error) {
	nodes := c.Nodes
	if only != nil {
		nodes = []*corev1.Node{only}
	}
	reached := make(map[pools.PoolID]*reach)
	for _, node := range nodes {
		view, err := c.Snapshot.GatherPools(node)
		if err != nil {
			return nil, err
		}
		for i := range view.Pools {
			id := view.Pools[i].Pool.ID
			if reached[id] == nil {
				reached[id] = &reach{devices: make(map[pools.DeviceIndex]bool)}
			}
			reached[id].add(node.Name, view.Pools[i])
		}
	}
	return reached, nil
}

func (r *reach) add(node string, view *pools.PoolView) {
	r.nodes = append(r.nodes, node)
	if r.invalid == "" {
		r.invalid = view.Invalid
	}
	for _, device := range view.Devices {
		if device.OnNode {
			r.devices[device.Index] = true
		}
	}
}

func (c *Cluster) poolState(pool *pools.Pool, r *reach, onlyReached bool) PoolState {
	state := PoolState{
		Driver: pool.ID.Driver, Pool: pool.ID.Name,
		Generation: pool.Generation, Slices: pool.Present, SliceCount: pool.SliceCount,
		Nodes: r.nodes, Incomplete: pool.Incomplete, Invalid: r.invalid,
	}
	if state.Invalid == "" {
		state.Invalid = pool.Invalid
	}
	usage := c.Ledger.Usage().Pool(pool)
	for _, set := range pool.CounterSets {
		counters := make([]AmountState, 0, set.Count)
		for i := set.First; i < set.First+set.Count; i++ {
			counter := &pool.Counters[i]
			counters = append(counters, AmountState{counter.Name, usage.Left[i].Quantity(counter.Quantity.Format), counter.Quantity})
		}
		state.CounterSets = append(state.CounterSets, CounterSetState{set.Name, counters})
	}
	// Devices of a pool that cannot be used are not part of any node's view.
	unusable := state.Incomplete != "" || state.Invalid != ""
	for i := range pool.Devices {
		if index := pools.DeviceIndex(i); !onlyReached || unusable || r.devices[index] {
			state.Devices = append(state.Devices, c.deviceState(pool, usage, index))
		}
	}
	return state
}

func (c *Cluster) deviceState(pool *pools.Pool, usage *pools.PoolUsage, index pools.DeviceIndex) DeviceState {
	device := &pool.Devices[index]
	state := DeviceState{
		Name:       device.Object.Name,
		Attributes: device.Object.Attributes,
		Shared:     device.Multiple,
		Taints:     device.Object.Taints,
	}
	for _, name := range slices.Sorted(maps.Keys(device.Object.Capacity)) {
		total := device.Object.Capacity[name].Value
		left := amount.FromQuantity(total).Sub(usage.Consumed(index, name)).Quantity(total.Format)
		state.Capacity = append(state.Capacity, AmountState{string(name), left, total})
	}
	for _, holder := range c.Ledger.Holder(pool.DeviceID(index)) {
		state.Holders = append(state.Holders, HolderState{holder.String(), holder.Request, c.consumers(holder)})
	}
	return state
}

func (c *Cluster) consumers(holder pools.ClaimRef) []string {
	claim := c.claims[types.NamespacedName{Namespace: holder.Namespace, Name: holder.Name}]
	if claim == nil {
		return nil
	}
	names := make([]string, len(claim.Status.ReservedFor))
	for i, consumer := range claim.Status.ReservedFor {
		names[i] = consumer.Name
	}
	return names
}
