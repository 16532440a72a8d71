package allocator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// instance is a Problem on one node: the node's devices in order of preference and
// what each filter says of them. It does not change once built.
type instance struct {
	problem *Problem
	node    *corev1.Node
	view    pools.NodeView
	pools   []poolUsage
	// devices are those of complete and valid pools. A device's position here is
	// what the search calls it.
	devices []device
	domains []domain // by filter
	// alternatives by alternative.id.
	alternatives []bound
	// literal is set if looking at some device can be an error. Which devices are
	// looked at then decides the outcome, so nothing may be pruned.
	literal bool
}

// poolUsage is a usable pool of the node with what is in use of it.
type poolUsage struct {
	pool *pools.Pool
	used *pools.PoolUsage
}

// device is a candidate on the node.
type device struct {
	*pools.Device
	pool  int32 // position in instance.pools
	index pools.DeviceIndex
	// place counts the devices that are on the node, in the order of the view.
	place  int32
	onNode bool
	// onNodeErr is set if the device's own node selector cannot be evaluated.
	onNodeErr error
	// multiple is set if allocations of the device are shares (KEP-5075).
	multiple bool
	inUse    bool
	shared   bool
	// barred says why no request can have the device, for reasons that need no
	// look at its content.
	barred Rejection
}

// bound is an alternative on the node.
type bound struct {
	domain *domain
	// needed is how many devices it takes.
	needed int
	// values are the attributes that constraints compare, by constraint of the
	// alternative and shape. Nil if no constraint covers it.
	values []map[*pools.Shape]constrained
}

// constrained is what a constraint sees of a shape.
type constrained struct {
	value pools.Attribute
	found bool
	err   error
}

// newInstance lists the devices of a node's view and judges them. The error is about the
// input: it stands for every node unless it names one.
func newInstance(ctx context.Context, p *Problem, view pools.NodeView, u Usage) (*instance, error) {
	in := &instance{problem: p, node: view.Node, view: view}
	in.gather(u)
	in.domains = make([]domain, len(p.filters))
	for i := range p.filters {
		if err := in.judgeAll(ctx, p.filters[i], &in.domains[i]); err != nil {
			return nil, err
		}
	}
	if err := in.bind(ctx); err != nil {
		return nil, err
	}
	return in, in.checkLimits()
}

func (in *instance) gather(u Usage) {
	count := 0
	for _, pv := range in.view.Pools {
		count += len(pv.Devices)
	}
	in.devices = make([]device, 0, count)
	in.pools = make([]poolUsage, 0, len(in.view.Pools))
	place := int32(0)
	for _, pv := range in.view.Pools {
		if !pv.Usable() {
			continue
		}
		used := u.Pool(pv.Pool)
		in.pools = append(in.pools, poolUsage{pool: pv.Pool, used: used})
		for _, nd := range pv.Devices {
			d := in.candidate(nd, pv.Pool, used)
			if d.onNode {
				d.place = place
				place++
			}
			in.devices = append(in.devices, d)
		}
	}
	in.prefer(in.problem.allocator.policy)
}

func (in *instance) candidate(nd pools.NodeDevice, pool *pools.Pool, used *pools.PoolUsage) device {
	d := device{
		Device:    &pool.Devices[nd.Index],
		pool:      int32(len(in.pools) - 1),
		index:     nd.Index,
		onNode:    nd.OnNode,
		onNodeErr: nd.SelectorErr,
		inUse:     used.InUse(nd.Index),
		shared:    used.Shared(nd.Index),
	}
	d.multiple = d.Multiple && in.features().ConsumableCapacity
	d.barred = in.bar(&d)
	return d
}

// bar tells why a device is out of reach for every request, if it is.
func (in *instance) bar(d *device) Rejection {
	f := in.features()
	skip := d.Slice.Object.Spec.SkipNodeOperations
	switch {
	case len(skip) > 0 && !f.OptionalNodeOperations:
		return Rejection{Reason: RejectedByNodeOperations, Detail: "the feature DRAOptionalNodeOperations is off"}
	case len(skip) > 0 && !operatesOptionally(in.node):
		return Rejection{Reason: RejectedByNodeOperations, Detail: "the node does not declare the feature DRAOptionalNodeOperations"}
	case d.ConsumesCounters && !f.PartitionableDevices:
		return Rejection{Reason: RejectedByCounter, Detail: "the feature DRAPartitionableDevices is off"}
	}
	return Rejection{}
}

// prefer puts devices into the order of the policy.
func (in *instance) prefer(policy Policy) {
	if _, ok := policy.(FirstFit); ok {
		return
	}
	slices.SortStableFunc(in.devices, func(a, b device) int {
		x, y := in.asCandidate(&a), in.asCandidate(&b)
		switch {
		case policy.Before(x, y):
			return -1
		case policy.Before(y, x):
			return 1
		}
		return 0
	})
}

func (in *instance) asCandidate(d *device) Candidate {
	return Candidate{Pool: in.pools[d.pool].pool, Device: d.Device, Shared: d.shared}
}

func (in *instance) features() Features { return in.problem.allocator.features }

// bind counts the devices which "all" means and looks up the attributes that
// constraints compare.
func (in *instance) bind(ctx context.Context) (err error) {
	in.alternatives = make([]bound, 0, len(in.problem.byID))
	in.problem.alternatives(func(c *claim, alt *alternative) {
		if err != nil {
			return
		}
		b := bound{domain: &in.domains[alt.filter], needed: alt.count}
		if alt.all {
			if err = in.bindAll(alt, &b); err != nil {
				return
			}
		}
		err = in.bindValues(ctx, c, alt, &b)
		in.alternatives = append(in.alternatives, b)
	})
	return err
}

// bindAll refuses to say what "all" is while a pool cannot tell. Devices that are
// mandatory and violate a constraint are an error, so nothing may be pruned then.
func (in *instance) bindAll(alt *alternative, b *bound) error {
	for _, pv := range in.view.Pools {
		if reason := pv.Incomplete + pv.Invalid; reason != "" {
			return fmt.Errorf("%s: asks for all devices, but pool %s cannot be used: %s", in.problem.path(alt), pv.Pool.ID, reason)
		}
	}
	if len(b.domain.bad) > 0 {
		return fmt.Errorf("%s: %w", in.problem.path(alt), b.domain.firstError())
	}
	b.needed = len(b.domain.mandatory)
	in.literal = in.literal || len(alt.constraints) > 0 && b.needed > 0
	return nil
}

// bindValues looks attributes up once for alternatives that ask for the same.
func (in *instance) bindValues(ctx context.Context, c *claim, alt *alternative, b *bound) error {
	for id := len(in.alternatives) - 1; id >= 0 && len(alt.constraints) > 0; id-- {
		if sameDemand(in.problem.byID[id], alt) {
			b.values = in.alternatives[id].values
			return nil
		}
	}
	for _, position := range alt.constraints {
		name := c.constraints[position].attribute()
		values := make(map[*pools.Shape]constrained)
		compared := b.domain.compared()
		for i, ok := compared.NextSet(0); ok; i, ok = compared.NextSet(i + 1) {
			shape := in.devices[i].Shape
			if _, known := values[shape]; known {
				continue
			}
			value, found, err := in.problem.allocator.selector.attribute(ctx, alt, shape, name)
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			in.literal = in.literal || err != nil
			values[shape] = constrained{value, found, err}
		}
		b.values = append(b.values, values)
	}
	return nil
}

// checkLimits refuses claims whose smallest result is larger than the API can hold.
func (in *instance) checkLimits() error {
	for i := range in.problem.claims {
		c := &in.problem.claims[i]
		least := 0
		for r := range c.requests {
			fewest := resourceapi.AllocationResultsMaxSize + 1
			for _, alt := range c.requests[r].alternatives {
				fewest = min(fewest, in.alternatives[alt.id].needed)
			}
			least += fewest
		}
		if least > resourceapi.AllocationResultsMaxSize {
			return fmt.Errorf("claim %s: asks for more than the %d devices that a claim can hold", c.ref(), resourceapi.AllocationResultsMaxSize)
		}
	}
	return nil
}
