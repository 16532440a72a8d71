// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alike

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
)

const (
	// maxDevices is the size of a pool up to which its devices are written into a key.
	maxDevices = 512
	// maxClasses is how many classes of pools a read set numbers. Further pools have none.
	maxClasses = 1 << 14
	// maxStates is how many states a read set numbers. Then it starts anew.
	maxStates = 1 << 15
	// maxReadSets is for how many read sets a pool caches its class.
	maxReadSets = 64
)

// class is what a read set sees of a pool on a node, whatever is in use.
type class struct {
	// number is 0 if the pool has no class and is identified by itself.
	number uint32
	// values are the distinct values that constraints compare, in order of appearance.
	values []shape.Value
}

// class returns the class of a pool on a node. It is cached with the pool.
func (l *readSet) class(ctx context.Context, view *pool.View) class {
	kept := view.Attach(func() any { return new(memo.List[*readSet, class]) }).(*memo.List[*readSet, class])
	known, ok := kept.Get(l)
	if !ok {
		known = l.classify(ctx, view)
		if known.number == 0 && ctx.Err() != nil {
			return known // numbering may have been interrupted
		}
		kept.Add(l, known, maxReadSets)
	}
	return known
}

// comparedByIdentity reports whether a pool is always identified by itself: all nodes have this one, or it is large.
func comparedByIdentity(view *pool.View) bool { return view.Common() || len(view.Here) > maxDevices }

// classify computes the class. Of devices that are not on the node, it only includes their distinct numbers, as
// selectors are evaluated on them and may fail.
func (l *readSet) classify(ctx context.Context, view *pool.View) class {
	if l.projection == nil || comparedByIdentity(view) || !view.Whole() && len(view.Pool.Counters) > 0 {
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

// poolKey is the key of a pool. Values that constraints compare are written as positions in values, as only
// their equality matters.
type poolKey struct {
	memo.Key
	values keys.Values
}

// read writes what a policy reads.
func (k *poolKey) read(d *pool.Device, r *Reads) {
	k.Number(len(d.Object.Capacity))
	for _, name := range slices.Sorted(maps.Keys(d.Object.Capacity)) {
		k.Text(string(name))
		k.Amount(quantity.Amount(d.Object.Capacity[name].Value))
	}
	for _, name := range r.Attributes {
		value, found := shape.Published(d.Shape.Driver, d.Object.Attributes, name)
		text, err := value.Marshal()
		if err != nil {
			panic("attribute " + string(name) + " cannot be encoded: " + err.Error()) // an attribute is plain data
		}
		k.Flags(found)
		k.Text(string(text))
	}
}

// These are the ways in which the key of a node identifies a pool.
const (
	unusablePool = iota
	// classedPool: by its class and its usage.
	classedPool
	// samePool: this pool only, with this usage.
	samePool
)

// nodeKey is the key of equivalent nodes.
type nodeKey struct {
	memo.Key
	// values are those of the pools with a class, in order of appearance.
	values []shape.Value
	// classed is the number of pools with a class and values.
	classed int
	// byIdentity is set if a pool is identified by itself. unclassed is set if that is because it has no class.
	byIdentity, unclassed bool
}

// nodeKeys are reused, as a key is written for each node that changed.
var nodeKeys = sync.Pool{New: func() any { return &nodeKey{Key: memo.NewKey()} }}

// state returns the number of the node's state. Nodes in the same state have equal answers, by position. It is
// 0 if it is uncertain which devices are on the node. Unclassed is set if a pool has no class, so that no other node
// can be in this state.
func (l *readSet) state(ctx context.Context, view *cluster.NodeView, u eligibility.Usage) (number uint32, unclassed bool) {
	k := nodeKeys.Get().(*nodeKey)
	defer nodeKeys.Put(k)
	*k = nodeKey{Key: memo.Key{Bytes: k.Bytes[:0]}, values: k.values[:0]}
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
	return l.states.Again(k.Bytes, maxStates), k.unclassed
}

func (k *nodeKey) pool(pv *pool.View, used *pool.Usage, seen class) {
	if seen.number == 0 {
		k.Number(samePool)
		k.Number(int(pv.Serial))
		k.Number(int(used.Serial))
		k.byIdentity, k.unclassed = true, k.unclassed || !comparedByIdentity(pv)
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

// equalities writes which values of different pools are equal, as constraints read nothing else. Values are
// written themselves if they may also be compared with those of a pool without a class, or with derived ones.
func (k *nodeKey) equalities(derived bool) {
	for i, v := range k.values {
		switch {
		case k.byIdentity || derived:
			k.Bytes = v.AppendKey(k.Bytes)
		case k.classed > 1:
			k.Number(i - slices.Index(k.values, v))
		}
	}
}
