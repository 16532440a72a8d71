// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
)

// counterTotals is the total of the counters of a mapping in the counter sets of a node. Devices together can draw no
// more.
type counterTotals struct {
	mapping *mapping
	sets    map[counterSet]bool
	sum     amount.Amount
}

type counterSet struct {
	pool *pool.Pool
	set  string
}

func newCounterTotals(m *mapping) *counterTotals {
	return &counterTotals{mapping: m, sets: make(map[counterSet]bool)}
}

// add adds the counter sets that a device draws on. Each set is added once.
func (s *counterTotals) add(of *pool.Pool, device *resourceapi.Device) {
	for _, consumption := range device.ConsumesCounters {
		at := counterSet{of, consumption.CounterSet}
		if s.sets[at] {
			continue
		}
		s.sets[at] = true
		for _, source := range s.mapping.Sources {
			if source.Counter != "" && source.Driver == of.ID.Driver {
				s.sum = s.sum.Add(totalOf(of, consumption.CounterSet, source.Counter))
			}
		}
	}
}

// most returns the total. It is false if the mapping has sources other than counters, for which there is no
// limit.
func (s *counterTotals) most() (amount.Amount, bool) {
	for _, source := range s.mapping.Sources {
		if source.Counter == "" {
			return amount.Amount{}, false
		}
	}
	return s.sum, len(s.mapping.Sources) > 0
}

func totalOf(of *pool.Pool, set, counter string) (sum amount.Amount) {
	for _, s := range of.CounterSets {
		if s.Name != set {
			continue
		}
		for c := s.First; c < s.First+s.Count; c++ {
			if of.Counters[c].Name == counter {
				sum = sum.Add(of.Counters[c].Total)
			}
		}
	}
	return sum
}
