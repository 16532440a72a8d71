// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"maps"
	"sync"
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

// Asker asks the allocator about one node at a time, and remembers what it said. It is safe for
// concurrent use.
type Asker struct {
	gates  pools.Gates
	taints bool  // whether taints count
	budget int64 // of one call
	// allocator, programs and interned are the same after an update of the cluster.
	allocator *allocator.Allocator
	programs  *cel.Cache
	interned  *interned
	classes   allocator.Classes
	// classNumbers are those of classes by name. Equal classes have one number.
	classNumbers map[string]int
	lens         atomic.Pointer[Lens]
	usages       *lru.Cache // usage, by *nodeState
}

// Options are how the allocator chooses, and how many steps it may take.
type Options struct {
	Features     allocator.Features
	DevicePolicy allocator.Remembered
	Topology     []resourceapi.FullyQualifiedName
	// Budget is how many search steps one call spends at most.
	Budget int64
	// Programs are compiled expressions that several askers share. Nil makes an own cache.
	Programs *cel.Cache
}

// manyPrograms is how many compiled CEL expressions are kept.
const manyPrograms = 4096

// New returns an asker that knows nothing. The error is about the topology.
func New(o Options, classes []*resourceapi.DeviceClass) (*Asker, error) {
	if err := allocator.CheckTopology(o.Topology); err != nil {
		return nil, err
	}
	if o.Programs == nil {
		o.Programs = cel.NewCache(manyPrograms)
	}
	k := &Asker{gates: o.Features.PoolGates(), taints: o.Features.DeviceTaints, budget: o.Budget, programs: o.Programs, interned: newInterned(), usages: lru.New(manyUsages)}
	k.allocator = allocator.New(allocator.Options{
		Features: o.Features, Policy: o.DevicePolicy, Topology: o.Topology,
		Memory: allocator.NewMemory(allocator.MemoryOptions{Programs: k.programs}),
	})
	var r questionReads
	r.addPolicy(o.DevicePolicy, o.Topology)
	k.lens.Store(blank(k.gates).with(&r))
	k.setClasses(classes)
	return k, nil
}

// Next returns one with other classes that knows what this one knows, but for what is much more than a
// cluster of that many nodes and devices needs.
func (k *Asker) Next(classes []*resourceapi.DeviceClass, nodes, devices int) *Asker {
	next := &Asker{gates: k.gates, taints: k.taints, budget: k.budget, allocator: k.allocator, programs: k.programs, interned: k.interned, usages: lru.New(manyUsages)}
	next.interned.prune()
	l := k.lens.Load()
	if l.outgrown(nodes, devices) {
		l = newLens(l.gates, l.covered)
	}
	next.lens.Store(l)
	next.setClasses(classes)
	return next
}

// Lens is what all questions so far read of devices.
func (k *Asker) Lens() *Lens { return k.lens.Load() }

// SameClasses reports whether another asker has equal classes.
func (k *Asker) SameClasses(other *Asker) bool { return maps.Equal(k.classNumbers, other.classNumbers) }

// Classed is what is written of a class.
var Classed = keys.Writer[*resourceapi.DeviceClass]{
	{Covers: keys.Keyed(reads.Class, "Spec"), Write: func(k *memo.Key, c *resourceapi.DeviceClass) { keys.AppendWhole(k, &c.Spec) }},
}

// setClasses numbers the classes, equal ones alike.
func (k *Asker) setClasses(classes []*resourceapi.DeviceClass) {
	k.classes, k.classNumbers = allocator.ClassMap(classes...), make(map[string]int)
	for _, class := range classes {
		key := memo.NewKey()
		key.Text(class.Name)
		Classed.Append(&key, class)
		k.classNumbers[class.Name] = k.interned.class(key.Bytes)
	}
}

// See makes the lens cover what the specs and the classes read.
func (k *Asker) See(specs []*Spec, classes ...*resourceapi.DeviceClass) {
	var r questionReads
	for _, s := range specs {
		k.addReads(&r, s)
	}
	for _, class := range classes {
		r.addSelectors(k.programs, class.Spec.Selectors)
	}
	k.widen(&r)
}

// widen makes the lens cover what is read.
func (k *Asker) widen(r *questionReads) {
	for {
		before := k.lens.Load()
		after := before.with(r)
		if after == before || k.lens.CompareAndSwap(before, after) {
			return
		}
	}
}

// interned are the numbers that all askers of one Open give to equal things.
type interned struct {
	mu        sync.Mutex
	specs     map[string]*Spec
	questions map[string]*Question
	classes   map[string]int
	numbers   int // given to specs, questions and classes so far
}

// maxInterned is how many specs, questions and classes are known before all are forgotten.
const maxInterned = 1 << 15

func newInterned() *interned {
	return &interned{specs: make(map[string]*Spec), questions: make(map[string]*Question), classes: make(map[string]int)}
}

// prune forgets if there is too much. Numbers are not given again.
func (i *interned) prune() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.specs)+len(i.questions)+len(i.classes) > maxInterned {
		clear(i.specs)
		clear(i.questions)
		clear(i.classes)
	}
}

// number is the next that nobody has.
func (i *interned) number() int {
	i.numbers++
	return i.numbers
}

func (i *interned) class(key []byte) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.classes[string(key)] == 0 {
		i.classes[string(key)] = i.number()
	}
	return i.classes[string(key)]
}

// Sizes is how much is remembered.
type Sizes struct {
	Specs, Questions int
	// Contents and Devices are those that the lens tells apart, Answers those about nodes on which nothing is in use.
	Contents, Devices, Answers int
}

// Sizes counts what is remembered.
func (k *Asker) Sizes() Sizes {
	k.interned.mu.Lock()
	defer k.interned.mu.Unlock()
	l := k.lens.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := Sizes{Specs: len(k.interned.specs), Questions: len(k.interned.questions), Contents: len(l.contents), Devices: len(l.devices)}
	for _, c := range l.contents {
		for _, q := range k.interned.questions {
			if c.fresh.known(q.id) != nil {
				n.Answers++
			}
		}
	}
	return n
}
