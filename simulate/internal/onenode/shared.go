// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"context"
	"iter"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/pools"
)

// SharedPools are the pools that several nodes can reach: pools for all nodes, pools with node selectors, and
// pools with slices of several nodes. It is immutable, except for a cache.
type SharedPools struct {
	Published []*resourceapi.ResourceSlice // of all generations
	Pools     []*SharedPool                // sorted by driver and name
	snapshot  *cluster.Snapshot

	mu sync.Mutex
	// answers caches answers that depend on these pools.
	answers map[string]*Answer
}

// SharedPool is one of the SharedPools.
type SharedPool struct {
	*PoolFacts
	pool      *pool.Pool
	Published []*resourceapi.ResourceSlice
}

// SharedHolding is a holding of a device of a SharedPool.
type SharedHolding struct {
	Pool int // position in SharedPools.Pools
	Holding
	Binds bool // the device binds the claim to the node
}

// reached is the set of pools that reach a node.
type reached struct {
	shared *SharedPools
	err    error
	number map[int]uint64 // by position of the pool; nodes with an equal number reach the same devices of it
}

// Surroundings are the pools of several nodes and the use of their devices. It is immutable.
type Surroundings struct {
	Shared *SharedPools
	Uses   []Uses // by position of the pool
}

// Change returns the surroundings with devices allocated or released.
func (s *Surroundings) Change(holdings []SharedHolding, take bool) *Surroundings {
	next := &Surroundings{Shared: s.Shared, Uses: slices.Clone(s.Uses)}
	for _, h := range holdings {
		next.Uses[h.Pool] = next.Uses[h.Pool].Change([]Holding{h.Holding}, take)
	}
	return next
}

// taken lists the devices in use of a node and of some of the pools.
func (s *Surroundings) taken(inv *Inventory, own Uses, positions []int) []taken {
	inUse := inv.taken(own)
	for _, position := range positions {
		inUse = s.Shared.Pools[position].appendTaken(inUse, s.Uses[position])
	}
	return inUse
}

// NewSharedPools reads the slices of pools that several nodes can reach.
func NewSharedPools(gates pools.Gates, published []*resourceapi.ResourceSlice) *SharedPools {
	s := &SharedPools{Published: published, snapshot: cluster.Build(pool.Gates(gates), published)}
	slicesOf := make(map[pools.PoolID][]*resourceapi.ResourceSlice)
	for _, slice := range published {
		slicesOf[PoolOf(slice)] = append(slicesOf[PoolOf(slice)], slice)
	}
	for _, p := range s.snapshot.Pools() {
		facts := newPoolFacts(p)
		s.Pools = append(s.Pools, &SharedPool{PoolFacts: facts, pool: p, Published: slicesOf[facts.ID]})
	}
	return s
}

// PoolOf returns the pool of a slice.
func PoolOf(slice *resourceapi.ResourceSlice) pools.PoolID {
	return pools.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
}

// all lists the positions of all pools.
func (s *SharedPools) all() []int {
	list := make([]int, len(s.Pools))
	for i := range list {
		list[i] = i
	}
	return list
}

// position returns the position of a pool.
func (s *SharedPools) position(id pools.PoolID) (int, bool) {
	return slices.BinarySearchFunc(s.Pools, id, func(p *SharedPool, id pools.PoolID) int { return comparePools(p.ID, id) })
}

// of returns which pools reach an inventory, and caches it.
func (s *SharedPools) of(inv *Inventory) *reached {
	if known := inv.reached.Load(); known != nil && known.shared == s {
		return known
	}
	found := &reached{shared: s, number: make(map[int]uint64)}
	view, err := s.snapshot.GatherPools(inv.Node)
	if found.err = err; err == nil {
		for _, v := range view.Pools {
			if position, ok := s.position(pools.PoolID(v.Pool.ID)); ok {
				found.number[position] = v.Serial
			}
		}
	}
	inv.reached.Store(found)
	return found
}

// Reaching lists the positions of the pools that reach an inventory, in order. The number of a pool is equal
// for inventories that reach the same devices of it.
func (s *SharedPools) Reaching(inv *Inventory) iter.Seq2[int, uint64] {
	around := s.of(inv)
	return func(yield func(int, uint64) bool) {
		for position := range s.Pools {
			if number, reached := around.number[position]; reached && !yield(position, number) {
				return
			}
		}
	}
}

// crossing are the pools of several nodes that may serve a question. The answer then depends on more than the
// node. Other pools are ignored, as no request of the question selects any of their devices.
type crossing struct {
	shared    *SharedPools
	positions []int
}

// crossing returns the pools of several nodes that may serve a question, and caches them.
func (k *Asker) crossing(ctx context.Context, s *SharedPools, q *Question) *crossing {
	if known := q.crossing.Load(); known != nil && known.shared == s {
		return known
	}
	made := &crossing{shared: s}
	for position, pool := range s.Pools {
		if k.concerns(ctx, pool, q) {
			made.positions = append(made.positions, position)
		}
	}
	if ctx.Err() == nil {
		q.crossing.Store(made)
	}
	return made
}

// concerns reports whether a pool may affect the answer to a question. If that is unknown, it is true.
func (k *Asker) concerns(ctx context.Context, pool *SharedPool, q *Question) bool {
	concerned := false
	for _, s := range q.Specs {
		s.eachRequest(func(f requestFilter) {
			// Requests for all devices fail if a pool is unusable.
			concerned = concerned || f.all && pool.Unusable != "" || k.passes(ctx, pool, f)
		})
	}
	return concerned
}

// passes reports whether a filter admits any device of a pool, or fails on one.
func (k *Asker) passes(ctx context.Context, pool *SharedPool, f requestFilter) bool {
	programs, err := k.programsOf(f)
	if err != nil {
		return true
	}
	for _, object := range pool.Devices {
		device := cel.NewDevice(pool.ID.Driver, object)
		passed := true
		for _, program := range programs {
			matches, err := program.Matches(ctx, device)
			if err != nil {
				return true
			}
			if passed = matches; !passed {
				break
			}
		}
		if passed {
			return true
		}
	}
	return false
}

// Holding returns the holding with the position of its device. It is false if the device is in none of the
// pools.
func (s *SharedPools) Holding(id pools.DeviceID, h Holding) (SharedHolding, bool) {
	if s == nil {
		return SharedHolding{}, false
	}
	position, found := s.position(id.PoolID())
	if !found {
		return SharedHolding{}, false
	}
	pool := s.Pools[position]
	if h.Device, found = lookup(pool.pool, id.Device); !found {
		return SharedHolding{}, false
	}
	object := pool.Devices[h.Device]
	return SharedHolding{Pool: position, Holding: h, Binds: object.BindsToNode != nil && *object.BindsToNode || isOfNode(pool, h.Device)}, true
}

// appendTaken appends the devices of the pool that are in use, by name.
func (f *SharedPool) appendTaken(to []taken, u Uses) []taken {
	for i := range u {
		to = append(to, taken{device: f.DeviceID(u[i].Device), use: u[i].use})
	}
	return to
}

// isOfNode reports whether a device belongs to one node only.
func isOfNode(pool *SharedPool, device int32) bool {
	return pool.pool.Devices[device].Slice.Object.Spec.NodeName != nil || pool.Devices[device].NodeName != nil
}

// view is what a question can reach from a node besides the node's own devices.
type view struct {
	// positions are the pools of the crossing that reach the node.
	positions []int
	key       memo.Key
}

// view returns nil if none of the pools reaches the node.
func (c *crossing) view(inv *Inventory, l *ReadSet) (*view, error) {
	if len(c.positions) == 0 {
		return nil, nil
	}
	around := c.shared.of(inv)
	if around.err != nil {
		return nil, around.err
	}
	v := &view{}
	for _, position := range c.positions {
		number, reaches := around.number[position]
		if !reaches {
			continue
		}
		v.positions = append(v.positions, position)
		v.key.Number(int(number))
		// Where the pool comes among those of the node depends on names.
		v.key.Number(inv.Before(c.shared.Pools[position].ID))
	}
	if len(v.positions) == 0 {
		return nil, nil
	}
	// Constraints may compare values of the node's devices with those of the pools.
	v.key.Number(int(inv.coveredBy(l).values))
	return v, nil
}

// About returns the answer for a node in a state, with its surroundings. The read set of the state must cover
// the question. The error is the context's.
func (k *Asker) About(c *Call, inv *Inventory, s *State, around *Surroundings, q *Question) (*Answer, error) {
	v, err := k.crossing(c.Context, around.Shared, q).view(inv, s.content.readSet)
	if err != nil {
		return &Answer{Fit: Failed, Err: err}, nil //nolint:nilerr // it is in the answer
	}
	if v == nil {
		return k.ask(c, s, q, 0)
	}
	return k.askAcross(c, inv, s, around, v, q)
}

// Crosses reports whether pools of several nodes may serve a question.
func (k *Asker) Crosses(ctx context.Context, shared *SharedPools, q *Question) bool {
	return len(k.crossing(ctx, shared, q).positions) > 0
}

// AppendSharedKey appends a key that is equal for nodes from which a question can reach the same devices,
// other than the nodes' own.
func (k *Asker) AppendSharedKey(ctx context.Context, to []byte, inv *Inventory, s *State, shared *SharedPools, q *Question) ([]byte, error) {
	v, err := k.crossing(ctx, shared, q).view(inv, s.content.readSet)
	if err != nil || v == nil {
		return to, err
	}
	return append(append(to, 1), v.key.Bytes...), nil
}

// AskOnce is About for a problem that was not made by Question. The answer is not cached.
func (k *Asker) AskOnce(c *Call, inv *Inventory, s *State, around *Surroundings, problem *allocator.Problem) (*Answer, error) {
	return k.search(c, inv, s, around, around.Shared.all(), problem)
}

// search runs the allocator once for a node and some of the surrounding pools.
func (k *Asker) search(c *Call, inv *Inventory, s *State, around *Surroundings, positions []int, problem *allocator.Problem) (*Answer, error) {
	if c.Budget <= 0 {
		return Spent, nil
	}
	r := around.snapshot(k.gates, inv, positions)
	o, err := r.allocate(c.Context, problem, r.change(nil, around.taken(inv, s.Uses, positions)))
	if c.Context.Err() != nil {
		return nil, context.Cause(c.Context)
	}
	found := outcome{o, err}
	c.spend(found)
	return newAnswer(k.gates, found, inv, around.Shared).about(s), nil
}

// snapshot returns a node with some of the pools.
func (s *Surroundings) snapshot(gates pools.Gates, inv *Inventory, positions []int) *snapshot {
	published := slices.Clip(inv.Slices())
	for _, position := range positions {
		published = append(published, s.Shared.Pools[position].Published...)
	}
	return newSnapshot(gates, inv.Node, published)
}

// Repeat solves a problem several times, each time after the allocation before. It returns the last outcome, or
// the first that is not an assignment. It ignores budgets.
func (k *Asker) Repeat(ctx context.Context, inv *Inventory, inUse Uses, around *Surroundings, problem *allocator.Problem, times int) (allocator.Outcome, error) {
	all := around.Shared.all()
	r := around.snapshot(k.gates, inv, all)
	for {
		o, err := r.allocate(ctx, problem, r.change(nil, around.taken(inv, inUse, all)))
		if err != nil {
			return nil, err
		}
		if times--; times <= 0 || o.Verdict() != allocator.Satisfiable {
			return o, nil
		}
		a := newAnswer(k.gates, outcome{Outcome: o}, inv, around.Shared)
		inUse = inUse.Change(a.Own, true)
	}
}

// askAcross is ask for a node that is reached by pools of several nodes that may serve the question.
func (k *Asker) askAcross(c *Call, inv *Inventory, s *State, around *Surroundings, v *view, q *Question) (*Answer, error) {
	key := memo.Key{Bytes: slices.Clone(v.key.Bytes)}
	key.Number(q.id)
	key.Number(int(s.number))
	for _, position := range v.positions {
		key.Text(string(around.Uses[position].AppendKey(nil)))
	}
	shared := around.Shared
	if known := shared.known(key.Bytes); known != nil {
		return known, nil
	}
	a, err := k.search(c, inv, s, around, v.positions, q.Problem)
	if err == nil && a != Spent {
		a.Err = unnamed(a.Err)
		shared.learn(key.Bytes, a, k.cache.States)
	}
	return a, err
}

func (s *SharedPools) known(key []byte) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[string(key)]
}

// learn caches an answer. If there are most answers already, all are dropped.
func (s *SharedPools) learn(key []byte, a *Answer, most int) {
	if most == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil || len(s.answers) >= most {
		s.answers = make(map[string]*Answer)
	}
	s.answers[string(key)] = a
}
