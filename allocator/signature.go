package allocator

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"

	"github.com/dray-project/dray/pools"
)

// signatureSize is room for most signatures.
const signatureSize = 256

// What a signature says of a pool.
const (
	unusablePool byte = iota
	// patternedPool: any pool of the same pattern in the same state of use is as good.
	patternedPool
	// samePool: only this pool in this state of use is.
	samePool
)

// signature reduces a node to what the problem can see of it. Nodes with equal signatures
// have equal answers, by position. It is nil if the node has to be looked at.
func (p *Problem) signature(ctx context.Context, to []byte, view *pools.NodeView, u Usage) []byte {
	if !p.repeats {
		return nil
	}
	to = append(to, flagByte(operatesOptionally(view.Node)))
	var buffer [16]pools.Value
	values, same, patterned := buffer[:0], false, 0
	for _, pv := range view.Pools {
		if !pv.Usable() {
			if p.wantsAll {
				return nil // an error
			}
			to = append(to, unusablePool)
			continue
		}
		used := u.Pool(pv.Pool)
		pattern := p.pattern(ctx, pv)
		switch {
		case pv.Uncertain:
			return nil
		case pattern == nil:
			to = append(to, samePool)
			to = binary.LittleEndian.AppendUint64(to, pv.Serial())
			to = binary.LittleEndian.AppendUint64(to, used.Serial())
			same = true
		default:
			to = append(to, patternedPool)
			to = binary.LittleEndian.AppendUint32(to, pattern.number)
			to = used.AppendKey(to, pv)
			if len(pattern.values) > 0 {
				values = append(values, pattern.values...)
				patterned++
			}
		}
	}
	switch {
	case same:
		// A constraint may compare them with those of that pool.
		for _, v := range values {
			to = v.AppendKey(to)
		}
	case patterned > 1:
		to = appendEqualities(to, values)
	}
	return to
}

// appendEqualities appends which of the values are equal: constraints see nothing else.
func appendEqualities(to []byte, values []pools.Value) []byte {
	for i, v := range values {
		to = binary.AppendUvarint(to, uint64(i-slices.Index(values[:i+1], v)))
	}
	return to
}

func flagByte(flag bool) byte {
	if flag {
		return 1
	}
	return 0
}

func operatesOptionally(node *corev1.Node) bool {
	return slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

// numbered is the pattern of a pool for one kind. It is an immutable list.
type numbered struct {
	kind *kind
	// number is 0 if there is no pattern.
	number uint32
	// values are the different ones that constraints compare, as they come. The pattern
	// names them by position.
	values []pools.Value
	next   *numbered
	length int
}

// pattern returns the pattern of a pool as the node sees it, nil if there is none or the
// context was cancelled.
func (p *Problem) pattern(ctx context.Context, view *pools.PoolView) *numbered {
	if view.Common || view.Here() > maxPatternDevices {
		return nil
	}
	list := view.Attach(func() any { return new(atomic.Pointer[numbered]) }).(*atomic.Pointer[numbered])
	head := list.Load()
	for n := head; n != nil; n = n.next {
		if n.kind == p.kind {
			return n.orNil()
		}
	}
	t := &pattern{ctx: ctx, p: p, view: view}
	n := &numbered{kind: p.kind, next: head, length: 1}
	if head != nil {
		n.length = head.length + 1
	}
	if n.length > maxNotes {
		n.next, n.length = nil, 1
	}
	if t.spell() {
		n.number, n.values = p.kind.number(t.text), t.values
	} else if ctx.Err() != nil {
		return nil // not for good
	}
	list.CompareAndSwap(head, n)
	return n.orNil()
}

func (n *numbered) orNil() *numbered {
	if n.number == 0 {
		return nil
	}
	return n
}
