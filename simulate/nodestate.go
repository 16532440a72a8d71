package simulate

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/quantity"
	"github.com/dray-project/dray/pools"
)

// content is what the questions of a lens can tell of the devices of a node. Nodes with equal
// devices share one.
type content struct {
	lens    *lens
	example *inventory

	room func() *room // of the example

	mu     sync.Mutex
	states map[string]*nodeState
	fresh  *nodeState
}

// maxStates is how many states of one content are found again. Beyond that the memory starts
// anew; states that nodes are in live on.
const maxStates = 1 << 16

// nodeState is a content with what is in use of it: everything that decides which devices a
// pod gets on a node. Two nodes in the same state have equal answers by position. There is one
// for all nodes that are in it, which is what the answers are remembered with.
type nodeState struct {
	content *content
	number  uint64 // no two are equal
	uses    uses
	// options are set for an undecided node, all else is empty then.
	options *options
	answers atomic.Pointer[[]*answerPage]
	mu      sync.Mutex // held to grow answers
	// plain is what plainer found, once it was asked.
	plain     *nodeState
	plainOnce sync.Once
}

// answerPageSize is how many answers of one state are kept together.
const answerPageSize = 32

type answerPage [answerPageSize]atomic.Pointer[answer]

// state returns the state with these uses.
func (c *content) state(u uses) *nodeState {
	if len(u) == 0 {
		return c.fresh
	}
	var buffer [128]byte
	key := u.appendKey(buffer[:0])
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.states[string(key)]; known != nil {
		return known
	}
	if len(c.states) >= maxStates {
		clear(c.states)
	}
	made := newNodeState(c, u)
	c.states[string(key)] = made
	return made
}

// plainer returns the state without taints of a what-if on devices of which something holds all. It is nil
// if there are none.
func (s *nodeState) plainer(gates pools.Gates) *nodeState {
	if s.content == nil || len(s.content.example.added) == 0 {
		return nil
	}
	s.plainOnce.Do(func() {
		inv := s.content.example
		kept := slices.DeleteFunc(slices.Clone(inv.added), func(t addedTaint) bool {
			at, used := slices.BinarySearchFunc(s.uses, t.device, func(u placedUse, device int32) int { return cmp.Compare(u.device, device) })
			return used && s.uses[at].wholes > 0
		})
		if len(kept) < len(inv.added) {
			s.plain = inv.withAdded(kept, gates).look(s.content.lens, gates).content.state(s.uses)
		}
	})
	return s.plain
}

// stateNumbers counts the states ever made.
var stateNumbers atomic.Uint64

func newNodeState(c *content, u uses) *nodeState {
	return &nodeState{content: c, uses: u, number: stateNumbers.Add(1)}
}

// change returns the state with holdings added or taken away.
func (s *nodeState) change(holdings []holding, add bool) *nodeState {
	if len(holdings) == 0 {
		return s
	}
	return s.content.state(s.uses.change(holdings, add))
}

// known returns the answer to a question, nil if it was not asked.
func (s *nodeState) known(question int) *answer {
	pages := s.answers.Load()
	if pages == nil || question/answerPageSize >= len(*pages) {
		return nil
	}
	if page := (*pages)[question/answerPageSize]; page != nil {
		return page[question%answerPageSize].Load()
	}
	return nil
}

// learn remembers an answer. If another goroutine came first, its answer stays.
func (s *nodeState) learn(question int, a *answer) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.known(question); before != nil {
		return before
	}
	var pages []*answerPage
	if p := s.answers.Load(); p != nil {
		pages = *p
	}
	n := question / answerPageSize
	if n >= len(pages) || pages[n] == nil {
		grown := make([]*answerPage, max(len(pages), n+1))
		copy(grown, pages)
		grown[n] = new(answerPage)
		pages = grown
		s.answers.Store(&grown)
	}
	pages[n][question%answerPageSize].Store(a)
	return a
}

// use is how one device is in use. It is immutable.
type use struct {
	// wholes is how many hold all of the device. More than one is an error of the cluster,
	// and a fact.
	wholes int32
	// shares is how many hold a share, consumed is what they hold together.
	shares   int32
	consumed map[resourceapi.QualifiedName]resource.Quantity
}

// placedUse is the use of the device at a position of a list of pools.
type placedUse struct {
	device int32
	use
}

// uses is what is in use, sorted by position, without free devices. It is immutable.
type uses []placedUse

// holding is a device, or a share of one, that a claim holds.
type holding struct {
	device   int32
	share    bool
	consumed map[resourceapi.QualifiedName]resource.Quantity
	// request is what the device was allocated for.
	request string
	// claim is the position of the claim in the question that was asked.
	claim int32
}

// change returns the uses with holdings added, or with the same holdings taken away.
func (u uses) change(holdings []holding, add bool) uses {
	if len(holdings) == 0 {
		return u
	}
	next := make(uses, len(u), len(u)+len(holdings))
	copy(next, u)
	for i := range holdings {
		h := &holdings[i]
		at, found := slices.BinarySearchFunc(next, h.device, func(p placedUse, device int32) int { return cmp.Compare(p.device, device) })
		if !found {
			next = slices.Insert(next, at, placedUse{device: h.device})
		}
		next[at].use = next[at].change(h, add)
		if next[at].wholes == 0 && next[at].shares == 0 {
			next = slices.Delete(next, at, at+1)
		}
	}
	return next
}

func (u use) change(h *holding, add bool) use {
	one := int32(1)
	if !add {
		one = -1
	}
	if !h.share {
		u.wholes += one
		return u
	}
	u.shares += one
	u.consumed = maps.Clone(u.consumed)
	for name, amount := range h.consumed {
		sum := u.consumed[name].DeepCopy()
		if add {
			sum.Add(amount)
		} else {
			sum.Sub(amount)
		}
		if u.consumed == nil {
			u.consumed = make(map[resourceapi.QualifiedName]resource.Quantity)
		}
		if u.consumed[name] = sum; sum.IsZero() {
			delete(u.consumed, name)
		}
	}
	return u
}

// same reports whether no question can tell two uses apart: how many hold a share makes no
// difference, only what they hold together.
func (u uses) same(other uses) bool {
	return slices.EqualFunc(u, other, func(a, b placedUse) bool {
		return a.device == b.device && (a.wholes > 0) == (b.wholes > 0) && (a.shares > 0) == (b.shares > 0) &&
			maps.EqualFunc(a.consumed, b.consumed, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
	})
}

// appendKey appends bytes that are equal for equal uses.
func (u uses) appendKey(to []byte) []byte {
	for i := range u {
		p := &u[i]
		to = binary.AppendUvarint(to, uint64(p.device))
		to = binary.AppendUvarint(to, uint64(p.wholes))
		if to = binary.AppendUvarint(to, uint64(p.shares)); p.shares == 0 {
			continue
		}
		to = binary.AppendUvarint(to, uint64(len(p.consumed)))
		for _, name := range slices.Sorted(maps.Keys(p.consumed)) {
			to = appendText(to, string(name))
			to = quantity.Amount(p.consumed[name]).AppendKey(to)
		}
	}
	return to
}

// appendText appends a string in such a way that no two lists of strings are equal.
func appendText(to []byte, text string) []byte {
	to = binary.AppendUvarint(to, uint64(len(text)))
	return append(to, text...)
}
