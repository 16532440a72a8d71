package simulate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// spec is what one claim asks for. Equal ones are one.
type spec struct {
	id      int
	devices resourceapi.DeviceClaim
	more    extension.Claim // what is asked for beyond that
}

// question is what a pod has to get allocated on a node: its claims that are not allocated yet.
// Pods that ask for the same ask one question.
type question struct {
	id      int
	specs   []*spec
	problem *allocator.Problem
	err     error // of compilation
	reads   reads
	// looksAtUsed is set if a request may get devices that are in use, or wants all, in use or not.
	looksAtUsed bool
	// crossing are the pools of several nodes that may serve it, by position.
	crossing atomic.Pointer[crossing]
}

// verdict is an answer without its particulars.
type verdict uint8

const (
	fits verdict = iota
	unfit
	undecided
	failed
)

// answer is what the allocator says to a question about a node in a state.
type answer struct {
	verdict verdict
	err     error
	// own and shared are what is taken, next is the state after that.
	own    []holding
	shared []sharedHolding
	next   *nodeState
	// bound has, by claim, whether its devices tie it to the node, and else to which nodes.
	bound []boundTo
	// room is how often more the same fits after another, plus one; zero if unknown.
	room atomic.Int64
}

// boundTo says where an allocated claim can be used.
type boundTo struct {
	node     bool
	selector *resourceapi.AllocationResult // its nodeSelector counts; nil with node
}

// unlimited is how often something fits that takes nothing.
const unlimited = math.MaxInt32

// call is one call of the API: what it may spend, and what it found on the way.
type call struct {
	ctx    context.Context
	budget int64 // steps left
	// doubts is set if some node was neither a yes nor a no.
	doubts bool
	err    error // the first about a node
}

func (w *world) newCall(ctx context.Context) (call, error) {
	if ctx.Err() != nil {
		return call{}, context.Cause(ctx)
	}
	budget := w.options.Budget
	if budget <= 0 {
		budget = DefaultBudget
	}
	return call{ctx: ctx, budget: budget}, nil
}

// note keeps what is not a definite answer.
func (c *call) note(a *answer) {
	c.doubts = c.doubts || a.verdict == undecided || a.verdict == failed
	if c.err == nil {
		c.err = a.err
	}
}

// spent is the answer once the budget of the call is spent. It is not remembered.
var spent = &answer{verdict: undecided}

// ask returns the answer for a node that no pool of several nodes reaches, or for a question that
// such pools cannot serve. The error is the context's.
func (w *world) ask(c *call, s *nodeState, q *question) (*answer, error) {
	if known := s.known(q.id); known != nil {
		return known, nil
	}
	a, err := w.askPlainer(c, s, q)
	if err != nil || a == spent {
		return a, err
	}
	a.next = s.change(a.own, true)
	return s.learn(q.id, a), nil
}

// plainer is a state without taints that a question does not look at, or the state itself: no request for a
// number of devices gets a device of which something holds all, so its taints make no difference.
func (w *world) plainer(s *nodeState, q *question) *nodeState {
	if plainer := s.plainer(w.gates); plainer != nil && !q.looksAtUsed {
		return plainer
	}
	return s
}

// askPlainer asks about the plainer state if there is one.
func (w *world) askPlainer(c *call, s *nodeState, q *question) (*answer, error) {
	if plainer := w.plainer(s, q); plainer != s {
		a, err := w.ask(c, plainer, q)
		if err != nil || a == spent {
			return a, err
		}
		return &answer{verdict: a.verdict, err: a.err, own: a.own, bound: a.bound}, nil // no pool of several nodes was in the question
	}
	if c.budget <= 0 {
		return spent, nil
	}
	return w.search(c, s.content.room(), q, s.content.example, w.usage(s), nil)
}

// search asks the allocator.
func (w *world) search(c *call, r *room, q *question, inv *inventory, inUse usage, cross *crossing) (*answer, error) {
	outcome, err := r.allocate(c.ctx, q.problem, inUse)
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	if err != nil {
		return &answer{verdict: failed, err: err}, nil //nolint:nilerr // it is in the answer
	}
	c.budget -= outcome.Stats().Steps
	switch outcome := outcome.(type) {
	case *allocator.Unsatisfiable:
		return &answer{verdict: unfit}, nil
	case *allocator.Assignment:
		return newAnswer(outcome.Results(), inv, cross, w.gates.ConsumableCapacity)
	}
	return &answer{verdict: undecided}, nil
}

// newAnswer reads what an allocation takes.
func newAnswer(results []resourceapi.AllocationResult, inv *inventory, cross *crossing, shares bool) (*answer, error) {
	a := &answer{verdict: fits, bound: make([]boundTo, len(results))}
	for claim := range results {
		bound := &a.bound[claim]
		bound.selector = &results[claim]
		for i := range results[claim].Devices.Results {
			result := &results[claim].Devices.Results[i]
			id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			h := holding{claim: int32(claim), request: result.Request}
			if result.ShareID != nil && shares {
				h.share, h.consumed = true, result.ConsumedCapacity
			}
			position, own := inv.position(id)
			if own {
				bound.node, bound.selector = true, nil
			}
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			if own {
				h.device = position
				a.own = append(a.own, h)
				continue
			}
			held, found := cross.holding(id, h)
			if !found {
				return nil, fmt.Errorf("device %s was allocated on node %s, which does not reach it", id, inv.node.Name)
			}
			bound.node = bound.node || held.binds
			a.shared = append(a.shared, held)
		}
	}
	return a, nil
}

// room is how many more pods that ask a question fit on a node, one after the other. Doubt is set
// if the next one is undecided; the answer about it, if there is one, is next.
func (w *world) room(c *call, s *nodeState, q *question) (n int64, doubt bool, next *answer, err error) {
	s = w.plainer(s, q) // the same holds for all states that follow
	var chain []*answer
	for {
		a, err := w.ask(c, s, q)
		if err != nil {
			return 0, false, nil, err
		}
		if known := a.room.Load(); known != 0 {
			n = known - 1
			break
		}
		if a.verdict != fits {
			doubt, next = a.verdict != unfit, a
			break
		}
		if a.next == s || len(a.next.uses) == len(s.uses) && a.next.uses.same(s.uses) {
			return unlimited, false, nil, nil
		}
		if chain = append(chain, a); len(chain) == maxOneByOne {
			doubt = true
			break
		}
		w.follow(s, a)
		s = a.next
	}
	for _, a := range slices.Backward(chain) {
		if n++; !doubt {
			a.room.Store(n + 1)
		}
	}
	return n, doubt, next, nil
}

// room is one node with the slices that reach it, and nothing else of the cluster. What is
// allocated there stands for all nodes that have the same content.
type room struct {
	node  *corev1.Node
	empty *pools.State
}

func newRoom(gates pools.Gates, node *corev1.Node, slices []*resourceapi.ResourceSlice) *room {
	return &room{node: node, empty: pools.NewState(pools.Build(gates, slices))}
}

// taken is how a device is in use, by its name.
type taken struct {
	device pools.DeviceID
	use
}

// usage is what is in use of a room, or why that cannot be.
type usage struct {
	state *pools.State
	err   error
}

// inUse is the room with this in use.
func (r *room) inUse(list []taken) usage { return r.more(usage{state: r.empty}, "in-use", list) }

// more is a usage with this in use, too, by a claim of that name, which is another for each.
func (r *room) more(u usage, name string, list []taken) usage {
	if len(list) == 0 || u.err != nil {
		return u
	}
	state, err := u.state.Assume(holder(name, list))
	if err != nil {
		return usage{err: fmt.Errorf("node %s: %w", r.node.Name, err)}
	}
	return usage{state: state}
}

// allocate asks the allocator about the node of the room.
func (r *room) allocate(ctx context.Context, problem *allocator.Problem, u usage) (allocator.Outcome, error) {
	if u.err != nil {
		return nil, u.err
	}
	return problem.Allocate(ctx, u.state, r.node)
}

// manyUsages is of how many states the usage is kept. Making it takes longer than asking a question
// about it, and questions about one state come soon after each other.
const manyUsages = 1024

// usage is what is in use in a state, of the example of its content.
func (w *world) usage(s *nodeState) usage {
	if known, found := w.usages.Get(s); found {
		return known.(usage)
	}
	made := s.content.room().more(usage{state: s.content.room().empty}, fmt.Sprint(s.number), s.content.example.taken(s.uses))
	w.usages.Add(s, made)
	return made
}

// follow makes the usage after an answer, from the one before it, for the question that comes next.
func (w *world) follow(s *nodeState, a *answer) {
	if _, found := w.usages.Get(a.next); found {
		return
	}
	before, found := w.usages.Get(s)
	if !found {
		return
	}
	var added uses
	w.usages.Add(a.next, s.content.room().more(before.(usage), fmt.Sprint(a.next.number), s.content.example.taken(added.change(a.own, true))))
}

// holder is a claim that has everything allocated that is in use.
func holder(name string, inUse []taken) *resourceapi.ResourceClaim {
	results := make([]resourceapi.DeviceRequestAllocationResult, 0, len(inUse))
	for i := range inUse {
		t := &inUse[i]
		result := resourceapi.DeviceRequestAllocationResult{Driver: t.device.Driver, Pool: t.device.Pool, Device: t.device.Device}
		if t.wholes > 0 {
			results = append(results, result)
		}
		if t.shares > 0 {
			// What all shares hold counts, not how many there are.
			share := types.UID(name)
			result.ShareID, result.ConsumedCapacity = &share, t.consumed
			results = append(results, result)
		}
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.UID = name, types.UID(name)
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
	return claim
}

// question returns the one with these specs.
func (w *world) question(specs []*spec) *question {
	var key []byte
	for _, s := range specs {
		key = binary.AppendUvarint(key, uint64(s.id))
	}
	w.interned.mu.Lock()
	defer w.interned.mu.Unlock()
	if known := w.interned.questions[string(key)]; known != nil {
		return known
	}
	q := &question{id: w.interned.number(), specs: slices.Clone(specs)}
	w.compile(q)
	w.interned.questions[string(key)] = q
	return q
}

// compile makes the problem, and finds out what is read.
func (w *world) compile(q *question) {
	for _, s := range q.specs {
		w.addSpecReads(&q.reads, s)
		s.eachRequest(func(f requestFilter) { q.looksAtUsed = q.looksAtUsed || f.all || f.admin })
	}
	claims, extensions := q.claims()
	if !slices.ContainsFunc(extensions, func(more extension.Claim) bool { return !more.IsZero() }) {
		q.problem, q.err = w.allocator.Compile(claims, w.classes)
		return
	}
	q.problem, q.err = w.allocator.CompileExtended(claims, extensions, w.classes)
}

// addReads finds out what a claim reads.
func (w *world) addReads(r *reads, claim *resourceapi.DeviceClaim) {
	r.addConstraints(claim.Constraints)
	eachRequest(claim, func(f requestFilter) { w.addFilterReads(r, f) })
}

// addFilterReads finds out what a filter reads.
func (w *world) addFilterReads(r *reads, f requestFilter) {
	if class, err := w.classes.Get(f.class); err == nil {
		r.addSelectors(w.programs, class.Spec.Selectors)
	}
	r.addSelectors(w.programs, f.selectors)
	r.addDerived(w.programs, f.derived)
}

// requestFilter is what a request or subrequest says about single devices.
type requestFilter struct {
	class     string
	selectors []resourceapi.DeviceSelector
	derived   []resourceapi.DeviceDerivedAttribute
	all       bool
	admin     bool
}

func eachRequest(claim *resourceapi.DeviceClaim, visit func(requestFilter)) {
	for i := range claim.Requests {
		request := &claim.Requests[i]
		if e := request.Exactly; e != nil {
			visit(requestFilter{e.DeviceClassName, e.Selectors, e.DerivedAttributes, e.AllocationMode == resourceapi.DeviceAllocationModeAll, e.AdminAccess != nil && *e.AdminAccess})
		}
		for j := range request.FirstAvailable {
			s := &request.FirstAvailable[j]
			visit(requestFilter{s.DeviceClassName, s.Selectors, s.DerivedAttributes, s.AllocationMode == resourceapi.DeviceAllocationModeAll, false})
		}
	}
}

// errNoProgram marks a filter of which nothing is known.
var errNoProgram = errors.New("a selector cannot be evaluated")

// programsOf compiles all selectors of a request.
func (w *world) programsOf(f requestFilter) ([]*cel.Program, error) {
	class, err := w.classes.Get(f.class)
	if err != nil {
		return nil, err
	}
	var list []*cel.Program
	for _, s := range slices.Concat(class.Spec.Selectors, f.selectors) {
		if s.CEL == nil {
			return nil, errNoProgram
		}
		program, err := w.programs.Selector(s.CEL.Expression)
		if err != nil {
			return nil, err
		}
		list = append(list, program)
	}
	return list, nil
}
