// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/interpreter"
	resourceapi "k8s.io/api/resource/v1"
)

// Memo evaluates expressions and caches the results by the projections of devices. Devices that differ only in
// other parts, such as a serial number, share one evaluation. It is bounded and safe for concurrent use.
type Memo struct {
	shards      [memoShards]shard
	seed        maphash.Seed
	evaluations atomic.Int64
}

// memoShards is the number of independently locked parts.
const memoShards = 16

// answer is a result of an evaluation. It is shared and immutable.
type answer struct {
	match     bool
	attribute *resourceapi.DeviceAttribute
	err       error
}

// NewMemo returns a memo for about size results. It evicts those that were not used recently. With size zero,
// it caches nothing.
func NewMemo(size int) *Memo {
	m := &Memo{seed: maphash.MakeSeed()}
	for i := range m.shards {
		if size > 0 {
			m.shards[i].half = max(size/memoShards/2, 1)
		}
	}
	return m
}

// Evaluations returns how many expressions were evaluated. Goroutines that need the same result at the same
// time may each evaluate it.
func (m *Memo) Evaluations() int64 { return m.evaluations.Load() }

// Matches is like [Program.Matches].
func (m *Memo) Matches(ctx context.Context, p *Program, d *Device) (bool, error) {
	if match, decided := p.comparison.decide(d); decided {
		return match, nil
	}
	a := m.get(p, d, 's', func() (a answer) {
		a.match, a.err = p.Matches(ctx, d)
		return a
	})
	return a.match, a.err
}

// Attribute is like [Program.Attribute]. The result is shared and must not be modified.
func (m *Memo) Attribute(ctx context.Context, p *Program, d *Device) (*resourceapi.DeviceAttribute, error) {
	a := m.get(p, d, 'd', func() (a answer) {
		a.attribute, a.err = p.Attribute(ctx, d)
		return a
	})
	return a.attribute, a.err
}

// get returns the answer of a program for a device. use distinguishes selectors from derived attributes.
func (m *Memo) get(p *Program, d *Device, use byte, evaluate func() answer) answer {
	if d.err != nil {
		return evaluate() // returns the error without evaluating
	}
	var buffer [256]byte
	key := append(binary.AppendUvarint(buffer[:0], p.id), use)
	key = p.projector.append(key, d)
	shard := &m.shards[maphash.Bytes(m.seed, key)%memoShards]
	if known, found := shard.get(key); found {
		return known
	}
	m.evaluations.Add(1)
	a := evaluate()
	if !errors.Is(a.err, interpreter.InterruptError{}) {
		shard.put(string(key), a)
	}
	return a
}

// shard caches answers in two generations. When the young one is full, it becomes the old one, and the previous
// old one is dropped. An answer that is used moves to the young one.
type shard struct {
	mu         sync.RWMutex
	half       int
	young, old map[string]answer
}

func (s *shard) get(key []byte) (answer, bool) {
	s.mu.RLock()
	known, young := s.young[string(key)]
	found := young
	if !young {
		known, found = s.old[string(key)]
	}
	s.mu.RUnlock()
	if found && !young {
		s.put(string(key), known)
	}
	return known, found
}

func (s *shard) put(key string, a answer) {
	if s.half == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.young) >= s.half {
		s.old, s.young = s.young, nil
	}
	if s.young == nil {
		s.young = make(map[string]answer)
	}
	s.young[key] = a
}
