// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
)

// stock is what there is of the counters of a mapping on a node: devices draw no more than that together.
type stock struct {
	mapping *mapping
	sets    map[counterSet]bool
	sum     amount.Amount
}

type counterSet struct {
	pool *pool.Pool
	set  string
}

func newStock(m *mapping) *stock { return &stock{mapping: m, sets: make(map[counterSet]bool)} }

// add adds the counter sets on which a device draws.
func (s *stock) add(of *pool.Pool, device *resourceapi.Device) {
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

// most is what there is, and false if not all of the mapping is counters.
func (s *stock) most() (amount.Amount, bool) {
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
