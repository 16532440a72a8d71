package onenode

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
	"github.com/dray-project/dray/pools"
)

// Verdict is an answer without its particulars.
type Verdict uint8

// The verdicts. Undecided and Failed are neither a yes nor a no: the budget was spent, or there was an error.
const (
	Fits Verdict = iota
	Unfit
	Undecided
	Failed
)

// Answer is what the allocator says to a question about a node in a state.
type Answer struct {
	Verdict Verdict
	Err     error
	// Own and Shared are what is taken, Next is the state after that.
	Own    []Holding
	Shared []SharedHolding
	Next   *State
	// Bound has, by claim, whether its devices tie it to the node, and else to which nodes.
	Bound []BoundTo
	// room is how often more the same fits after another, plus one; zero if unknown.
	room atomic.Int64
}

// BoundTo says where an allocated claim can be used.
type BoundTo struct {
	Node     bool
	Selector *resourceapi.AllocationResult // its nodeSelector counts; nil with Node
}

// MaxOneByOne is how far is counted how often something fits. Beyond that, more may fit.
const MaxOneByOne = 1000

// Unlimited is how often something fits that takes nothing.
const Unlimited = math.MaxInt32

// Call is one call of the API: what it may spend, and what it found on the way.
type Call struct {
	Context context.Context
	Budget  int64 // steps left
	// Doubts is set if some node was neither a yes nor a no.
	Doubts bool
	Err    error // the first about a node
}

// NewCall starts a call. The error is the context's.
func (k *Asker) NewCall(ctx context.Context) (Call, error) {
	if ctx.Err() != nil {
		return Call{}, context.Cause(ctx)
	}
	return Call{Context: ctx, Budget: k.budget}, nil
}

// Note keeps what is not a definite answer.
func (c *Call) Note(a *Answer) {
	c.Doubts = c.Doubts || a.Verdict == Undecided || a.Verdict == Failed
	if c.Err == nil {
		c.Err = a.Err
	}
}

// Spent is the answer once the budget of the call is spent. It is not remembered.
var Spent = &Answer{Verdict: Undecided}

// ask returns the answer for a node that no pool of several nodes reaches, or for a question that
// such pools cannot serve. The error is the context's.
func (k *Asker) ask(c *Call, s *State, q *Question) (*Answer, error) {
	if known := s.known(q.id); known != nil {
		return known, nil
	}
	a, err := k.askUntainted(c, s, q)
	if err != nil || a == Spent {
		return a, err
	}
	if a == nil {
		if c.Budget <= 0 {
			return Spent, nil
		}
		if a, err = k.search(c, s.content.snapshot(), q.Problem, s.content.example, k.usage(s), nil); err != nil {
			return nil, err
		}
	}
	a.Next = s.Change(a.Own, true)
	return s.learn(q.id, a), nil
}

// askUntainted is the answer for a state as far as one with fewer taints of what-ifs tells it, nil if none does: no
// request for a number of devices gets a device of which something holds all, and the other taints only take
// candidates away. See decision 0048.
func (k *Asker) askUntainted(c *Call, s *State, q *Question) (*Answer, error) {
	fewer := s.fewerTaints()
	if fewer == nil || q.looksAtUsed {
		return nil, nil //nolint:nilnil // there is no answer yet
	}
	var a *Answer
	if fewer.held != s {
		var err error
		if a, err = k.ask(c, fewer.held, q); err != nil || a == Spent {
			return a, err
		}
	} else if a = fewer.all.known(q.id); a == nil || a.Verdict != Unfit && (a.Verdict != Fits || s.content.example.tainted(a.Own)) {
		return nil, nil //nolint:nilnil // as above
	}
	return &Answer{Verdict: a.Verdict, Err: a.Err, Own: a.Own, Bound: a.Bound}, nil // no pool of several nodes was in the question
}

// search asks the allocator.
func (k *Asker) search(c *Call, r *snapshot, problem *allocator.Problem, inv *Inventory, inUse usage, shared *SharedPools) (*Answer, error) {
	outcome, err := r.allocate(c.Context, problem, inUse)
	if c.Context.Err() != nil {
		return nil, context.Cause(c.Context)
	}
	if err != nil {
		return &Answer{Verdict: Failed, Err: err}, nil //nolint:nilerr // it is in the answer
	}
	c.Budget -= outcome.Stats().Steps
	switch outcome := outcome.(type) {
	case *allocator.Unsatisfiable:
		return &Answer{Verdict: Unfit}, nil
	case *allocator.Assignment:
		return k.newAnswer(outcome.Results(), inv, shared)
	}
	return &Answer{Verdict: Undecided}, nil
}

// newAnswer reads what an allocation takes.
func (k *Asker) newAnswer(results []resourceapi.AllocationResult, inv *Inventory, shared *SharedPools) (*Answer, error) {
	a := &Answer{Verdict: Fits, Bound: make([]BoundTo, len(results))}
	for claim := range results {
		bound := &a.Bound[claim]
		bound.Selector = &results[claim]
		for i := range results[claim].Devices.Results {
			result := &results[claim].Devices.Results[i]
			id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			h := Holding{Claim: int32(claim), Request: result.Request}
			if result.ShareID != nil && k.gates.ConsumableCapacity {
				h.Share, h.Consumed = true, result.ConsumedCapacity
			}
			position, own := inv.Position(id)
			if own {
				bound.Node, bound.Selector = true, nil
			}
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			if own {
				h.Device = position
				a.Own = append(a.Own, h)
				continue
			}
			held, found := shared.Holding(id, h)
			if !found {
				return nil, fmt.Errorf("device %s was allocated on node %s, which does not reach it", id, inv.Node.Name)
			}
			bound.Node = bound.Node || held.Binds
			a.Shared = append(a.Shared, held)
		}
	}
	return a, nil
}

// Room is how many more pods that ask a question fit on a node, one after the other, up to most of them. Doubt is
// set if the next one is undecided; the answer about it, if there is one, is next. Beyond most nobody is asked.
func (k *Asker) Room(c *Call, s *State, q *Question, most int64) (n int64, doubt bool, next *Answer, err error) {
	if fewer := s.fewerTaints(); fewer != nil && !q.looksAtUsed {
		s = fewer.held // the same holds for all states that follow
	}
	var chain []*Answer
	exact := true
	for {
		if int64(len(chain)) == most {
			exact = false
			break
		}
		a, err := k.ask(c, s, q)
		if err != nil {
			return 0, false, nil, err
		}
		if known := a.room.Load(); known != 0 {
			n = known - 1
			break
		}
		if a.Verdict != Fits {
			if doubt, exact = a.Verdict != Unfit, a.Verdict == Unfit; doubt {
				next = a
			}
			break
		}
		if a.Next == s || len(a.Next.Uses) == len(s.Uses) && a.Next.Uses.Same(s.Uses) {
			return most, false, nil, nil
		}
		if chain = append(chain, a); len(chain) == MaxOneByOne {
			doubt, exact = int64(len(chain)) < most, false
			break
		}
		k.follow(s, a)
		s = a.Next
	}
	for _, a := range slices.Backward(chain) {
		if n++; exact {
			a.room.Store(n + 1)
		}
	}
	return min(n, most), doubt, next, nil
}

// snapshot is one node with the pools that reach it, and nothing else of the cluster. What is
// allocated there stands for all nodes that have the same content.
type snapshot struct {
	node  *corev1.Node
	pools *cluster.Snapshot
}

func newSnapshot(gates pools.Gates, node *corev1.Node, slices []*resourceapi.ResourceSlice) *snapshot {
	return &snapshot{node: node, pools: cluster.Build(pool.Gates(gates), slices)}
}

// snapshot has the pools as they were read, but for added taints.
func (inv *Inventory) snapshot(gates pools.Gates) *snapshot {
	if len(inv.Added) > 0 {
		return newSnapshot(gates, inv.Node, inv.Slices())
	}
	all := make([]*pool.Pool, len(inv.Pools))
	for i := range inv.Pools {
		all[i] = inv.Pools[i].pool
	}
	return &snapshot{node: inv.Node, pools: cluster.Of(pool.Gates(gates), all)}
}

// taken is how a device is in use, by its name.
type taken struct {
	device pools.DeviceID
	use
}

// usage is what is in use of a snapshot, by pool. It is immutable.
type usage []*pool.Usage

// change returns the usage with some devices in use as listed, the devices of a pool one after the other.
func (r *snapshot) change(u usage, list []taken) usage {
	u = slices.Clone(u)
	for len(list) > 0 {
		id := list[0].device.PoolID()
		n := 1
		for n < len(list) && list[n].device.PoolID() == id {
			n++
		}
		if p := r.pools.Pool(pool.ID(id)); p != nil {
			at := slices.IndexFunc(u, func(used *pool.Usage) bool { return used.Pool() == p })
			if at < 0 {
				at, u = len(u), append(u, p.Idle())
			}
			edit := u[at].Edit()
			for i := range list[:n] {
				edit.Set(p.Lookup(list[i].device.Device), list[i].ofPool())
			}
			u[at] = edit.Done()
		}
		list = list[n:]
	}
	return u
}

// ofPool is the use as usages have it.
func (u *use) ofPool() pool.Use {
	found := pool.Use{Exclusive: u.Wholes > 0, Shared: u.shares > 0}
	for name, amount := range u.consumed {
		found.Consumed = append(found.Consumed, pool.Consumption{Capacity: name, Amount: quantity.Amount(amount)})
	}
	return found
}

// allocate asks the allocator about the node of the snapshot.
func (r *snapshot) allocate(ctx context.Context, problem *allocator.Problem, u usage) (allocator.Outcome, error) {
	return problem.Allocate(ctx, (*pools.State)(cluster.NewUsedState(r.pools, u)), r.node)
}

// manyUsages is of how many states the usage is kept. Making it takes longer than asking a question
// about it, and questions about one state come soon after each other.
const manyUsages = 1024

// usage is what is in use in a state, of the example of its content.
func (k *Asker) usage(s *State) usage {
	if known, found := k.usages.Get(s); found {
		return known.(usage)
	}
	made := s.content.snapshot().change(nil, s.content.example.taken(s.Uses))
	k.usages.Add(s, made)
	return made
}

// follow makes the usage after an answer, from the one before it, for the question that comes next.
func (k *Asker) follow(s *State, a *Answer) {
	if _, found := k.usages.Get(a.Next); found {
		return
	}
	before, found := k.usages.Get(s)
	if !found {
		return
	}
	changed := slices.DeleteFunc(slices.Clone(a.Next.Uses), func(u PlacedUse) bool {
		return !slices.ContainsFunc(a.Own, func(h Holding) bool { return h.Device == u.Device })
	})
	k.usages.Add(a.Next, s.content.snapshot().change(before.(usage), s.content.example.taken(changed)))
}
