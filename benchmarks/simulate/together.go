// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"sync"

	"github.com/dray-project/dray/simulate"
)

// gangSize is the number of pods of the gangs that the peer places. perNode is how many of them may
// be on one node.
const (
	gangSize = 9
	perNode  = 2
)

// levels are topology labels: racks within zones.
var levels = []string{"topology.kubernetes.io/zone", "rack"}

// together asks about gangs of pods, and measures two concurrent callers.
func (b *bench) together() []row {
	return []row{
		{name: "gang of 4–14 in one of 50 domains", needed: "≤ 0.3 ms", measure: func() figures {
			return per(nil, func(i int) {
				_, err := b.gangWithin(4+i%11, 0, "rack")
				must(err)
			})
		}, parts: 1, peer: func(u *upstream) error { _, err := u.gang(b, b.world.shapes[0], gangSize, 0, "rack"); return err }},
		{name: fmt.Sprintf("gang of %d in a rack of a zone, at most %d a node", gangSize, perNode), parts: 1, measure: func() figures {
			return per(nil, func(int) {
				_, err := b.gangWithin(gangSize, perNode, levels...)
				must(err)
			})
		}, peer: func(u *upstream) error {
			_, err := u.gang(b, b.world.shapes[0], gangSize, perNode, levels...)
			return err
		}},
		{name: "CPU of two goroutines that drain, beside one", needed: "≤ 1.1×", measure: b.twoGoroutines},
	}
}

// gangWithin places pods on nodes with equal values of some labels. perNode limits the pods on a
// node; 0 stands for no limit.
func (b *bench) gangWithin(pods, perNode int, labels ...string) (simulate.Result, error) {
	var topologies []simulate.Topology
	for _, label := range labels {
		topologies = append(topologies, simulate.Topology{NodeLabel: label})
	}
	demands := []simulate.Demand{{Shape: b.shapes[0], Count: pods, PerNode: perNode}}
	return b.state.Sim().Gang(b, demands, topologies, simulate.Real(nil), simulate.FirstFit)
}

// agreeGangs compares placements of gangs.
func (b *bench) agreeGangs() error {
	for _, question := range []struct {
		pods, perNode int
		labels        []string
	}{{gangSize, 0, []string{"rack"}}, {gangSize, perNode, levels}, {4, 1, levels}, {3, 0, levels}} {
		want, err := newUpstream(b.world).gang(b, b.world.shapes[0], question.pods, question.perNode, question.labels...)
		if err != nil {
			return err
		}
		result, err := b.gangWithin(question.pods, question.perNode, question.labels...)
		if err != nil {
			return err
		}
		if got := nodesOf(&result); result.All() != (len(want) == question.pods) || result.All() && !slices.Equal(got, want) {
			return fmt.Errorf("a gang of %d within %v, at most %d a node: upstream places it on %v, Dray on %v", question.pods, question.labels, question.perNode, want, got)
		}
	}
	return nil
}

// twoGoroutines compares the time of two goroutines, with a Sim each, with that of one goroutine
// for the same work.
func (b *bench) twoGoroutines() figures {
	const drains = 4000
	drain := func(n int) {
		sim := b.state.Sim()
		for i := range n {
			sim.Fork()
			_, err := sim.Drain(b, simulate.Real(nil), simulate.FirstFit, b.nodeName(i))
			must(err)
			sim.Revert()
		}
	}
	drain(len(b.world.cluster.Nodes))
	one := per(nil, func(int) { drain(2 * drains) })
	two := per(nil, func(int) {
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { drain(drains) })
		}
		group.Wait()
	})
	two.ratio = float64(two.perOp) / float64(one.perOp)
	return two
}
