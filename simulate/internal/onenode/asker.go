// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/pools"
)

// Asker asks the allocator about one node at a time, and caches the answers. It is safe for concurrent use.
type Asker struct {
	gates  pools.Gates
	cache  *stateCache
	taints bool  // whether the gate of device taints is on
	budget int64 // search steps of one call
	// allocator, programs and interned are shared with the askers after updates of the cluster.
	allocator *allocator.Allocator
	programs  *cel.Cache
	interned  *interned
	classes   allocator.Classes
	// classNumbers are the interned numbers of classes, by name. Equal classes have equal numbers.
	classNumbers map[string]int
	readSet      atomic.Pointer[ReadSet]
	usages       *lru.Cache // caches usage, by *State
}

// Options configure the allocator and its budget.
type Options struct {
	Features     allocator.Features
	DevicePolicy allocator.Remembered
	Topology     []resourceapi.FullyQualifiedName
	// Budget is the largest number of search steps of one call.
	Budget int64
	// Bounds limit the caches. The zero value disables them.
	Bounds Bounds
	// Programs is a cache of compiled expressions that several askers share. If it is nil, the asker makes its
	// own.
	Programs *cel.Cache
}

// manyPrograms is the number of compiled CEL expressions that are kept.
const manyPrograms = 4096

// New returns an asker with empty caches. The error is about the topology.
func New(o Options, classes []*resourceapi.DeviceClass) (*Asker, error) {
	if err := allocator.CheckTopology(o.Topology); err != nil {
		return nil, err
	}
	if o.Programs == nil {
		o.Programs = cel.NewCache(manyPrograms)
	}
	k := &Asker{
		gates: o.Features.PoolGates(), cache: &stateCache{Bounds: o.Bounds}, taints: o.Features.DeviceTaints, budget: o.Budget,
		programs: o.Programs, interned: &interned{most: o.Bounds.Questions}, usages: lru.New(manyUsages),
	}
	k.allocator = allocator.New(allocator.Options{
		Features: o.Features, Policy: o.DevicePolicy, Topology: o.Topology,
		Memory: allocator.NewMemory(allocator.MemoryOptions{Programs: k.programs, Off: o.Bounds == Bounds{}}),
	})
	var r questionReads
	r.addPolicy(o.DevicePolicy, o.Topology)
	k.readSet.Store(emptyReadSet(k.gates, k.cache).with(&r))
	k.setClasses(classes)
	return k, nil
}

// Next returns an asker with other classes that keeps the caches. The caches of the read set are dropped if
// they have many more entries than a cluster of that many nodes and devices needs.
func (k *Asker) Next(classes []*resourceapi.DeviceClass, nodes, devices int) *Asker {
	next := &Asker{
		gates: k.gates, cache: k.cache, taints: k.taints, budget: k.budget,
		allocator: k.allocator, programs: k.programs, interned: k.interned, usages: lru.New(manyUsages),
	}
	l := k.readSet.Load()
	if l.outgrown(nodes, devices) {
		l = newReadSet(l.gates, l.cache, l.covered)
	}
	next.readSet.Store(l)
	next.setClasses(classes)
	return next
}

// ReadSet returns the set of properties of devices that any question so far reads.
func (k *Asker) ReadSet() *ReadSet { return k.readSet.Load() }

// Classed writes the key of a class.
var Classed = keys.Writer[*resourceapi.DeviceClass]{
	{Covers: keys.Keyed(reads.Class, "Spec"), Write: func(k *memo.Key, c *resourceapi.DeviceClass) { keys.AppendWhole(k, &c.Spec) }},
}

// setClasses assigns numbers to the classes. Equal classes get equal numbers.
func (k *Asker) setClasses(classes []*resourceapi.DeviceClass) {
	k.classes, k.classNumbers = allocator.ClassMap(classes...), make(map[string]int)
	for _, class := range classes {
		key := memo.NewKey()
		key.Text(class.Name)
		Classed.Append(&key, class)
		k.classNumbers[class.Name] = k.interned.class(string(key.Bytes))
	}
}

// Cover widens the read set to cover the specs and the classes.
func (k *Asker) Cover(specs []*Spec, classes ...*resourceapi.DeviceClass) {
	var r questionReads
	for _, s := range specs {
		k.addReads(&r, s)
	}
	for _, class := range classes {
		r.addSelectors(k.programs, class.Spec.Selectors)
	}
	k.widen(&r)
}

// widen widens the read set.
func (k *Asker) widen(r *questionReads) {
	for {
		before := k.readSet.Load()
		after := before.with(r)
		if after == before || k.readSet.CompareAndSwap(before, after) {
			return
		}
	}
}

// interned has the specs, questions and classes that all askers of one Open share. A map with more than most
// entries is cleared. Numbers are not reused.
type interned struct {
	most      int
	specs     memo.Map[string, *Spec]
	questions memo.Map[string, *Question]
	classes   memo.Map[string, int]
	numbers   atomic.Int64 // last number assigned to a question or class
}

// number returns a new number.
func (i *interned) number() int { return int(i.numbers.Add(1)) }

// class returns the number of a class with a key.
func (i *interned) class(key string) int {
	if known, found := i.classes.Get(key); found {
		return known
	}
	made := i.number()
	i.classes.Add(key, made, i.most)
	return made
}

// Sizes are numbers of cached entries.
type Sizes struct {
	Specs, Questions int
	// Contents and Devices are those of the present read set. Answers are those for nodes with nothing in use.
	Contents, Devices, Answers int
	// Total is how many states and answers are remembered, Forgotten how often all of them were forgotten.
	Total, Forgotten int
}

// Sizes counts the cached entries.
func (k *Asker) Sizes() Sizes {
	l := k.readSet.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := Sizes{Contents: len(l.contents), Devices: len(l.devices)}
	n.Total, n.Forgotten = k.cache.size()
	for range k.interned.specs.All {
		n.Specs++
	}
	for _, q := range k.interned.questions.All {
		n.Questions++
		for _, c := range l.contents {
			if c.fresh.known(q.id) != nil {
				n.Answers++
			}
		}
	}
	return n
}
