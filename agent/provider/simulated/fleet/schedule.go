// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/inventory"
)

// planned is a scripted event with the kind of nodes that it is for.
type planned struct {
	kind  *inventory.SimulatedNodes
	event *inventory.SimulatedEvent
}

// followScripts applies the events of all scripts at their times, until ctx ends. Time 0 is when
// all nodes are registered.
func (f *Fleet) followScripts(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.ready:
	}
	began := time.Now()
	var toWrite []func()
	plan := f.plan()
	for i, next := range plan {
		timer := time.NewTimer(time.Until(began.Add(next.event.At.Duration)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		happened := 0
		for _, m := range f.members {
			if m.kind == next.kind && (next.event.Node == "" || next.event.Node == m.name) {
				toWrite = append(toWrite, f.apply(m, next.event))
				happened++
			}
		}
		klog.FromContext(ctx).V(2).Info("The script goes on", "kind", next.kind.Name, "at", next.event.At.Duration, "device", next.event.Device, "nodes", happened)
		if i+1 < len(plan) && plan[i+1].event.At == next.event.At {
			continue // events of the same time are written together
		}
		for _, write := range toWrite {
			write()
		}
		toWrite = nil
	}
}

// plan returns the events of all scripts, sorted by time.
func (f *Fleet) plan() []planned {
	var plan []planned
	for i := range f.options.Kinds {
		kind := &f.options.Kinds[i]
		for j := range kind.Script {
			plan = append(plan, planned{kind, &kind.Script[j]})
		}
	}
	slices.SortStableFunc(plan, func(a, b planned) int { return cmp.Compare(a.event.At.Duration, b.event.At.Duration) })
	return plan
}

// apply applies an event to a node in memory. The returned function queues the writes.
func (f *Fleet) apply(m *member, event *inventory.SimulatedEvent) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if event.Silent {
		m.silent = true
		return func() {}
	}
	if event.IsOfNode() {
		// While the node was silent, the node lifecycle controller may have changed its condition
		// Ready.
		wasSilent := m.silent
		if (m.failure != nil) != (event.NotReady != nil) || wasSilent {
			m.changed = metav1.Now()
		}
		m.failure, m.statusAt, m.silent = event.NotReady, time.Time{}, false
		return func() {
			f.beats.Add(m.number)
			if wasSilent {
				f.queueDevices(m)
			}
		}
	}
	if m.devices == nil {
		m.devices = make(map[string]inventory.SimulatedEvent)
	}
	if event.Recover || event.Add {
		delete(m.devices, event.Device)
	} else {
		m.devices[event.Device] = *event
	}
	return func() { f.queueDevices(m) }
}

// queueDevices queues the writes of a node's slices and of its claims' statuses.
func (f *Fleet) queueDevices(m *member) {
	f.publishing.Add(m.number)
	if f.claims != nil {
		f.claims.devicesChanged(m)
	}
}

func (m *member) isSilent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent
}
