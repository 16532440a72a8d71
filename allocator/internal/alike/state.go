// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alike

import (
	"context"
	"maps"
	"slices"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
)

const (
	// maxDevices is how many devices of a pool are spelled out at most.
	maxDevices = 512
	// maxClasses is how many looks of pools a read set tells apart. Others have none.
	maxClasses = 1 << 14
	// maxStates is how many states of nodes a read set tells apart before it starts anew.
	maxStates = 1 << 15
	// maxLooks is for how many read sets a pool on a node keeps its class.
	maxLooks = 64
)

// class is what a pool on a node looks like, whatever is in use.
type class struct {
	// number is 0 if the pool has to be known as itself.
	number uint32
	// values are the different ones that constraints compare, as they come.
	values []shape.Value
}

// class returns that of a pool on a node. It is kept with it.
func (l *readSet) class(ctx context.Context, view *pool.View) class {
	kept := view.Attach(func() any { return new(memo.List[*readSet, class]) }).(*memo.List[*readSet, class])
	known, ok := kept.Get(l)
	if !ok {
		known = l.look(ctx, view)
		if known.number == 0 && ctx.Err() != nil {
			return known // looking may have been interrupted
		}
		kept.Add(l, known, maxLooks)
	}
	return known
}

// isOne reports whether a pool on a node is not to be compared with others: all nodes have this one, or it is
// large.
func isOne(view *pool.View) bool { return view.Common() || len(view.Here) > maxDevices }

// look works the class out. Of devices that are elsewhere, only which ones there are that selectors tell
// apart matters: evaluating them may fail.
func (l *readSet) look(ctx context.Context, view *pool.View) class {
	if l.projection == nil || isOne(view) || !view.Whole() && len(view.Pool.Counters) > 0 {
		return class{}
	}
	var k poolKey
	k.Number(len(view.Here))
	keys.Pool.Append(&k.Key, view.Pool)
	var elsewhere []uint32
	for i, onNode := range view.All() {
		d := &view.Pool.Devices[i]
		number := l.projection.Number(ctx, d.Shape)
		switch {
		case number == 0:
			return class{}
		case !onNode:
			elsewhere = append(elsewhere, number)
			continue
		}
		k.Number(int(number))
		keys.Device.Append(&k.Key, d)
		if l.reads != nil {
			k.read(d, l.reads)
		}
		for _, name := range l.attributes {
			value, found := d.Shape.Attribute(name)
			keys.Attribute.Append(&k.Key, keys.Compared{Values: &k.values, Attribute: value, Found: found})
		}
	}
	slices.Sort(elsewhere)
	for _, number := range slices.Compact(elsewhere) {
		k.Number(int(number))
	}
	return class{l.classes.Of(k.Bytes, maxClasses), k.values.List}
}

// poolKey spells out a pool. Values that constraints compare are spelled by their position in
// values: only which are equal matters.
type poolKey struct {
	memo.Key
	values keys.Values
}

// read spells out what a policy reads.
func (k *poolKey) read(d *pool.Device, r *Reads) {
	k.Number(len(d.Object.Capacity))
	for _, name := range slices.Sorted(maps.Keys(d.Object.Capacity)) {
		k.Text(string(name))
		k.Amount(quantity.Amount(d.Object.Capacity[name].Value))
	}
	for _, name := range r.Attributes {
		value, found := model.Published(d, name)
		text, err := value.Marshal()
		if err != nil {
			panic("attribute " + string(name) + " cannot be encoded: " + err.Error()) // it is plain data
		}
		k.Flags(found)
		k.Text(string(text))
	}
}

// What the key of a node says of a pool.
const (
	unusablePool = iota
	// classedPool: any pool of the same class in the same state of use is as good.
	classedPool
	// samePool: only this pool in this state of use is.
	samePool
)

// nodeKey is bytes that are equal for nodes that are alike.
type nodeKey struct {
	memo.Key
	// values are those of the pools that have a class, as they come.
	values []shape.Value
	// classed counts the pools with a class that have values.
	classed int
	// same is set if it is about one pool and no other, odd if that is because it has no class.
	same, odd bool
}

// state returns the number of what the read set sees of a node, 0 if that cannot be said: devices may or may not be
// on the node. Nodes in the same state have equal answers, by position. Odd is set if a pool of the node is only
// like itself.
func (l *readSet) state(ctx context.Context, view *cluster.NodeView, u eligibility.Usage) (number uint32, odd bool) {
	k := nodeKey{Key: memo.NewKey()}
	keys.Node.Append(&k.Key, view.Node)
	for _, pv := range view.Pools {
		switch {
		case !pv.Usable():
			k.Number(unusablePool)
		case len(pv.Uncertain) > 0:
			return 0, false
		default:
			k.pool(pv, u.Pool(pv.Pool), l.class(ctx, pv))
		}
	}
	k.equalities(l.derived)
	return l.states.Again(k.Bytes, maxStates), k.odd
}

func (k *nodeKey) pool(pv *pool.View, used *pool.Usage, seen class) {
	if seen.number == 0 {
		k.Number(samePool)
		k.Number(int(pv.Serial))
		k.Number(int(used.Serial))
		k.same, k.odd = true, k.odd || !isOne(pv)
		return
	}
	k.Number(classedPool)
	k.Number(int(seen.number))
	k.Bytes = used.AppendKey(k.Bytes, pv)
	if len(seen.values) > 0 {
		k.values = append(k.values, seen.values...)
		k.classed++
	}
}

// equalities appends which of the values of several pools are equal: constraints see
// nothing else. They may also compare them with those of a pool that is but one, or with values that are
// computed.
func (k *nodeKey) equalities(derived bool) {
	for i, v := range k.values {
		switch {
		case k.same || derived:
			k.Bytes = v.AppendKey(k.Bytes)
		case k.classed > 1:
			k.Number(i - slices.Index(k.values, v))
		}
	}
}
