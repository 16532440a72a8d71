package simulate

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// sharedPools are the pools that more than one node can reach: those for all nodes, with node
// selectors, or with slices of several nodes. They are immutable.
type sharedPools struct {
	published []*resourceapi.ResourceSlice
	pools     []*sharedPool // sorted by driver and name
	gates     pools.Gates
	reach     reach

	mu sync.Mutex
	// answers remembers answers that depend on these pools.
	answers map[string]*answer
}

// sharedPool is one of them.
type sharedPool struct {
	*poolFacts
	published []*resourceapi.ResourceSlice
}

// sharedHolding is a holding of a device of such a pool.
type sharedHolding struct {
	pool int
	holding
	binds bool // the device binds the claim to the node
}

// reached are the pools that reach a node.
type reached struct {
	shared *sharedPools
	err    error
	number map[int]uint64 // by position of the pool
}

func newSharedPools(gates pools.Gates, published []*resourceapi.ResourceSlice) *sharedPools {
	s := &sharedPools{published: published, gates: gates, reach: newReach(gates, published)}
	slicesOf := make(map[pools.PoolID][]*resourceapi.ResourceSlice)
	for _, slice := range published {
		slicesOf[poolOf(slice)] = append(slicesOf[poolOf(slice)], slice)
	}
	for _, facts := range readPools(gates, published) {
		s.pools = append(s.pools, &sharedPool{poolFacts: facts, published: slicesOf[facts.id]})
	}
	return s
}

func poolOf(slice *resourceapi.ResourceSlice) pools.PoolID {
	return pools.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
}

// position finds a pool.
func (s *sharedPools) position(id pools.PoolID) (int, bool) {
	return slices.BinarySearchFunc(s.pools, id, func(p *sharedPool, id pools.PoolID) int { return comparePools(p.id, id) })
}

// of returns what reaches an inventory.
func (s *sharedPools) of(inv *inventory) *reached {
	if known := inv.reached.Load(); known != nil && known.shared == s {
		return known
	}
	found := &reached{shared: s, number: make(map[int]uint64)}
	numbers, err := s.reach.of(inv.node)
	found.err = err
	for id, number := range numbers {
		if position, ok := s.position(id); ok {
			found.number[position] = number
		}
	}
	inv.reached.Store(found)
	return found
}

// reach finds out which of the pools that no single node has reach a node.
type reach struct{ snapshot *cluster.Snapshot }

func newReach(gates pools.Gates, slices []*resourceapi.ResourceSlice) reach {
	return reach{cluster.Build(pool.Gates(gates), slices)}
}

// of lists what reaches a node, by pool. Nodes with an equal number reach the same of the pool.
func (r reach) of(node *corev1.Node) (map[pools.PoolID]uint64, error) {
	view, err := r.snapshot.GatherPools(node)
	if err != nil {
		return nil, err
	}
	numbers := make(map[pools.PoolID]uint64, len(view.Pools))
	for _, v := range view.Pools {
		numbers[pools.PoolID(v.Pool.ID)] = v.Serial()
	}
	return numbers, nil
}

// crossing are the pools of several nodes that may serve a question, and so make its answer depend
// on more than the node. All others are no part of it: no filter of the question lets one of their
// devices pass.
type crossing struct {
	shared    *sharedPools
	positions []int
	published []*resourceapi.ResourceSlice
}

// crossing finds the pools that matter for a question.
func (w *world) crossing(ctx context.Context, s *sharedPools, q *question) *crossing {
	if known := q.crossing.Load(); known != nil && known.shared == s {
		return known
	}
	made := &crossing{shared: s}
	for position, pool := range s.pools {
		if w.concerns(ctx, pool, q) {
			made.positions = append(made.positions, position)
			made.published = append(made.published, pool.published...)
		}
	}
	if ctx.Err() == nil {
		q.crossing.Store(made)
	}
	return made
}

// concerns reports whether a pool may make a difference for a question. In doubt it does.
func (w *world) concerns(ctx context.Context, pool *sharedPool, q *question) bool {
	concerned := false
	for _, s := range q.specs {
		s.eachRequest(func(f requestFilter) {
			// All devices of an unusable pool is an error.
			concerned = concerned || f.all && !pool.usable || w.passes(ctx, pool, f)
		})
	}
	return concerned
}

// passes reports whether a filter lets any device of a pool pass, or fails on one.
func (w *world) passes(ctx context.Context, pool *sharedPool, f requestFilter) bool {
	programs, err := w.programsOf(f)
	if err != nil {
		return true
	}
	for _, object := range pool.devices {
		device := cel.NewDevice(pool.id.Driver, object)
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

// holding turns what is held of a device by name into a holding of a shared pool.
func (c *crossing) holding(id pools.DeviceID, h holding) (sharedHolding, bool) {
	if c == nil {
		return sharedHolding{}, false
	}
	return c.shared.holding(id, h)
}

func (s *sharedPools) holding(id pools.DeviceID, h holding) (sharedHolding, bool) {
	position, found := s.position(id.PoolID())
	if !found {
		return sharedHolding{}, false
	}
	pool := s.pools[position]
	if h.device, found = pool.lookup(id.Device); !found {
		return sharedHolding{}, false
	}
	object := pool.devices[h.device]
	return sharedHolding{pool: position, holding: h, binds: object.BindsToNode != nil && *object.BindsToNode || isOfNode(pool, h.device)}, true
}

// taken names what is in use of a pool.
func (s *sharedPools) taken(position int, u uses) []taken {
	pool := s.pools[position]
	list := make([]taken, len(u))
	for i := range u {
		id := pools.DeviceID{Driver: pool.id.Driver, Pool: pool.id.Name, Device: pool.devices[u[i].device].Name}
		list[i] = taken{device: id, use: u[i].use}
	}
	return list
}

// isOfNode reports whether a device is on one node only.
func isOfNode(pool *sharedPool, device int32) bool {
	return pool.slices[pool.sliceOf[device]].Spec.NodeName != nil || pool.devices[device].NodeName != nil
}

// view is what a question sees of a node besides its own devices.
type view struct {
	cross *crossing
	// positions are the pools of the crossing that reach the node.
	positions []int
	key       []byte
}

// view returns nil if no pool of several nodes that matters reaches the node.
func (c *crossing) view(inv *inventory, l *lens) (*view, error) {
	if len(c.positions) == 0 {
		return nil, nil
	}
	around := c.shared.of(inv)
	if around.err != nil {
		return nil, around.err
	}
	v := &view{cross: c}
	for _, position := range c.positions {
		number, reaches := around.number[position]
		if !reaches {
			continue
		}
		v.positions = append(v.positions, position)
		v.key = binary.AppendUvarint(v.key, number)
		// Where the pool comes among those of the node depends on names.
		at, _ := slices.BinarySearchFunc(inv.pools, c.shared.pools[position].id, func(p ownPool, id pools.PoolID) int { return comparePools(p.id, id) })
		v.key = binary.AppendUvarint(v.key, uint64(at))
	}
	if len(v.positions) == 0 {
		return nil, nil
	}
	// Constraints may compare values of the node with those of the pools.
	v.key = binary.AppendUvarint(v.key, uint64(inv.look(l, c.shared.gates).values))
	return v, nil
}

// askAcross is ask for a node that pools of several nodes reach which may serve the question.
func (w *world) askAcross(c *call, d *version, rec *nodeRecord, v *view, q *question) (*answer, error) {
	key := binary.AppendUvarint(slices.Clone(v.key), uint64(q.id))
	key = binary.AppendUvarint(key, rec.state.number)
	for _, position := range v.positions {
		key = appendText(key, string(d.sharedUses[position].appendKey(nil)))
	}
	shared := v.cross.shared
	if known := shared.known(key); known != nil {
		return known, nil
	}
	if c.budget <= 0 {
		return spent, nil
	}
	inUse := rec.inventory.taken(rec.state.uses)
	var published []*resourceapi.ResourceSlice
	for _, position := range v.positions {
		pool := shared.pools[position]
		published = append(published, pool.published...)
		inUse = append(inUse, shared.taken(position, d.sharedUses[position])...)
	}
	r := newRoom(w.gates, rec.inventory.node, slices.Concat(rec.inventory.slices(), published))
	a, err := w.search(c, r, q, rec.inventory, r.inUse(inUse), v.cross)
	if err != nil {
		return nil, err
	}
	a.next = rec.state.change(a.own, true)
	shared.learn(key, a)
	return a, nil
}

// maxCrossAnswers is how many answers are remembered before the memory starts anew.
const maxCrossAnswers = 1 << 16

func (s *sharedPools) known(key []byte) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[string(key)]
}

func (s *sharedPools) learn(key []byte, a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil || len(s.answers) >= maxCrossAnswers {
		s.answers = make(map[string]*answer)
	}
	s.answers[string(key)] = a
}
