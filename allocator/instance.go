package allocator

import (
	"context"
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bitset"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// instance is a Problem on one node: the node's devices in order of preference and
// what each filter says of them. It does not change once built.
type instance struct {
	*roster
	problem *Problem
	node    *corev1.Node
	view    pools.NodeView
	pools   []poolUsage
	// inUse are the devices in use as a whole, shared those of which shares are. Shared is
	// nil if there are none.
	inUse, shared *bitset.BitSet
	domains       []domain // by filter
	// alternatives by alternative.id.
	alternatives []bound
	// literal is set if looking at some device can be an error. Which devices are
	// looked at then decides the outcome, so nothing may be pruned.
	literal bool
	room    *room
}

// poolUsage is a usable pool of the node with what is in use of it.
type poolUsage struct {
	pool *pools.Pool
	used *pools.PoolUsage
}

// bound is an alternative on the node.
type bound struct {
	domain *domain
	// needed is how many devices it takes.
	needed int
	// values are the attributes that constraints compare, by constraint of the
	// alternative and device. Nil if no constraint covers it.
	values [][]constrained
}

// constrained is what a constraint sees of a device.
type constrained struct {
	value pools.Attribute
	found bool
	err   error
}

// newInstance lists the devices of a node's view and judges them. The error is about the
// input: it stands for every node unless it names one.
func newInstance(ctx context.Context, p *Problem, view pools.NodeView, u Usage) (*instance, error) {
	in := &instance{room: new(room)}
	return in, in.build(ctx, p, view, u)
}

func (in *instance) build(ctx context.Context, p *Problem, view pools.NodeView, u Usage) error {
	in.problem, in.node, in.view = p, view.Node, view
	in.gather(u)
	in.domains = append(in.domains[:0], make([]domain, len(p.filters))...)
	for i := range p.filters {
		if err := in.judgeAll(ctx, p.filters[i], &in.domains[i]); err != nil {
			return err
		}
	}
	if err := in.bind(ctx); err != nil {
		return err
	}
	return in.checkLimits()
}

// clear leaves nothing but memory.
func (in *instance) clear() {
	clear(in.pools)
	clear(in.domains)
	clear(in.alternatives)
	*in = instance{room: in.room, pools: in.pools[:0], domains: in.domains[:0], alternatives: in.alternatives[:0]}
}

func (in *instance) gather(u Usage) {
	in.roster = in.problem.allocator.rosterOf(&in.view)
	in.pools = in.pools[:0]
	for p := range in.roster.pools {
		pool := in.roster.pools[p].Pool
		in.pools = append(in.pools, poolUsage{pool: pool, used: u.Pool(pool)})
	}
	in.prefer(in.problem.allocator.policy)
	in.inUse = in.room.set(len(in.devices))
	for p := range in.pools {
		used := in.pools[p].used
		in.find(p, used.NextInUse, in.inUse)
		if _, some := used.NextShared(0); some {
			if in.shared == nil {
				in.shared = in.room.set(len(in.devices))
			}
			in.find(p, used.NextShared, in.shared)
		}
	}
}

func (in *instance) isShared(i int32) bool { return in.shared != nil && in.shared.Test(uint(i)) }

// bar tells why a device is out of reach for every request, if it is, for reasons that
// need no look at its content.
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
	in.roster = in.sorted(func(a, b device) int {
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
	pool := in.pools[d.pool]
	return Candidate{Pool: pool.pool, Device: d.Device, Shared: pool.used.Shared(d.index)}
}

func (in *instance) features() Features { return in.problem.allocator.features }

// bind counts the devices which "all" means and looks up the attributes that
// constraints compare.
func (in *instance) bind(ctx context.Context) (err error) {
	in.alternatives = slices.Grow(in.alternatives[:0], len(in.problem.byID))
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

// bindValues looks up the attributes that constraints compare.
func (in *instance) bindValues(ctx context.Context, c *claim, alt *alternative, b *bound) (err error) {
	if len(alt.constraints) == 0 {
		return nil
	}
	b.values = in.room.columns.take(len(alt.constraints))
	for k, position := range alt.constraints {
		name := c.constraints[position].attribute()
		if len(alt.derived) == 0 {
			b.values[k] = in.attribute(name)
		} else if b.values[k], err = in.derive(ctx, alt, b.domain, name); err != nil {
			return err
		}
	}
	return nil
}

// derive looks up an attribute of the devices that constraints may be asked about, with what
// an alternative computes. Only cancellation is an error here.
func (in *instance) derive(ctx context.Context, alt *alternative, d *domain, name resourceapi.FullyQualifiedName) ([]constrained, error) {
	values := make([]constrained, len(in.devices))
	known := make(map[*pools.Shape]constrained)
	compared := d.compared()
	for i, ok := compared.NextSet(0); ok; i, ok = compared.NextSet(i + 1) {
		shape := in.devices[i].Shape
		seen, ok := known[shape]
		if !ok {
			seen.value, seen.found, seen.err = in.problem.allocator.selector.attribute(ctx, alt, shape, name)
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			known[shape] = seen
		}
		in.literal = in.literal || seen.err != nil
		values[i] = seen
	}
	return values, nil
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
