// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/allocator"
	dray "github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/pools"
)

// largeFleet is 5000 nodes of which 36,000 GPUs are in use, and a pod for one more.
func largeFleet() *alloctest.Case {
	c := fleet(5000, useMost)
	c.claim("pending", request("gpu", "gpu", 1, gpuModel))
	return c.Case
}

// BenchmarkFixed is what a pod costs by itself, before its nodes: asking about one node
// of a large fleet, after other pods. The state of allocated devices is gathered anew
// for each pod, as kube-scheduler does, which is not measured. The list of slices
// comes in the same order or in another one each time.
func BenchmarkFixed(b *testing.B) {
	c := largeFleet()
	for _, order := range []string{"same", "shuffled"} {
		for _, impl := range implementations {
			if impl.name == resultsName || order == "shuffled" && impl.name == drayName {
				continue // Dray's own API takes no list of slices with a pod
			}
			b.Run(fmt.Sprintf("%s/order=%s/impl=%s", fixedPath, order, impl.name), func(b *testing.B) {
				s := impl.mustOpen(b, c)
				workOn(b, s, EqualPod, c, c.Nodes[:1])
				queue, views := podQueue{pod: EqualPod, cluster: c}, viewQueue{shuffle: order == "shuffled"}
				m := newMeter(b)
				for m.loop() {
					if facade, ok := s.(*structured); ok {
						*facade = views.next(m, facade)
					}
					if _, err := s.ask(b.Context(), queue.next(m), c.Nodes[:1]); err != nil {
						b.Fatal(err)
					}
				}
				m.report("", 0)
			})
		}
	}
}

// viewQueue gathers states and lists of slices for pods to come, several at a time,
// since collecting what that leaves behind must not be measured either.
type viewQueue struct {
	shuffle bool
	changes *changer
	made    []structured
	// collected is called after garbage was collected, which drops an index if it happens twice between two pods. It may be nil.
	collected func()
}

func (q *viewQueue) next(m *meter, s *structured) structured {
	if len(q.made) == 0 {
		m.aside(func() {
			for range 16 {
				q.made = append(q.made, q.view(s))
			}
			// Neither collecting garbage nor returning memory goes on while pods are measured.
			debug.FreeOSMemory()
			if q.collected != nil {
				q.collected()
			}
		})
	}
	view := q.made[0]
	q.made = q.made[1:]
	return view
}

func (q *viewQueue) view(s *structured) structured {
	listed := *s.cluster
	if q.changes != nil {
		q.changes.change()
		listed.Slices = q.changes.slices
	}
	listed.Slices = slices.Clone(listed.Slices)
	if q.shuffle {
		rand.Shuffle(len(listed.Slices), func(i, j int) {
			listed.Slices[i], listed.Slices[j] = listed.Slices[j], listed.Slices[i]
		})
	}
	view := *s
	view.state, view.cluster = peer.State(s.cluster), &listed
	return view
}

// BenchmarkIndex is reading a large cluster, which is done once.
func BenchmarkIndex(b *testing.B) {
	c := largeFleet()
	b.Run(indexPath+"/impl="+drayName, func(b *testing.B) {
		m := newMeter(b)
		for m.loop() {
			if _, err := ledgerOf(c); err != nil {
				b.Fatal(err)
			}
		}
		m.report("", 0)
	})
}

// changer replaces the slice of one node after the other by a changed one.
type changer struct {
	slices  []*resourceapi.ResourceSlice
	changed int
	made    []*resourceapi.ResourceSlice
}

// at is the position of the i-th change.
func (c *changer) at(i int) int { return 7 * i % len(c.slices) }

func (c *changer) change() *resourceapi.ResourceSlice {
	at := c.at(c.changed)
	c.changed++
	c.slices[at] = c.slices[at].DeepCopy()
	ecc := c.slices[at].Spec.Devices[3].Attributes["ecc"]
	*ecc.BoolValue = !*ecc.BoolValue
	return c.slices[at]
}

// next makes changes several at a time, as stopping the clock for each would cost more
// than following it does.
func (c *changer) next(m *meter) *resourceapi.ResourceSlice {
	if len(c.made) == 0 {
		m.aside(func() {
			for range 100 {
				c.made = append(c.made, c.change())
			}
			debug.FreeOSMemory()
		})
	}
	changed := c.made[0]
	c.made = c.made[1:]
	return changed
}

// BenchmarkChange is one slice that changes among 5000. Dray's own API is told which
// one; the others get a list.
func BenchmarkChange(b *testing.B) {
	c := largeFleet()
	b.Run(changePath+"/step=index/impl="+drayName, func(b *testing.B) { changeNative(b, c, false) })
	b.Run(changePath+"/step=index/impl="+facadeName, func(b *testing.B) { changeStructured(b, c, dray.NewAllocator, false) })
	b.Run(changePath+"/step=answer/impl="+upstreamName, func(b *testing.B) { changeStructured(b, c, upstream.NewAllocator, true) })
	b.Run(changePath+"/step=answer/impl="+facadeName, func(b *testing.B) { changeStructured(b, c, dray.NewAllocator, true) })
	b.Run(changePath+"/step=answer/impl="+drayName, func(b *testing.B) { changeNative(b, c, true) })
}

// changeNative follows a change, and answers for the node of the slice if asked to.
func changeNative(b *testing.B, c *alloctest.Case, answer bool) {
	builder, changes := pools.NewBuilder(c.Features.PoolGates()), changer{slices: slices.Clone(c.Slices)}
	builder.Set(c.Slices...)
	ledger := pools.NewLedger(builder.Snapshot())
	for _, claim := range c.Allocated {
		if err := ledger.Assume(claim); err != nil {
			b.Fatal(err)
		}
	}
	problem, err := allocator.New(allocator.Options{Features: c.Features}).Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		b.Fatal(err)
	}
	m := newMeter(b)
	for i := 0; m.loop(); i++ {
		builder.Set(changes.next(m))
		ledger.Rebase(builder.Snapshot())
		if !answer {
			continue
		}
		if _, err := problem.Feasible(b.Context(), ledger.State(), c.Nodes[changes.at(i)]); err != nil {
			b.Fatal(err)
		}
	}
	m.report("", 0)
}

func changeStructured(b *testing.B, c *alloctest.Case, newAllocator peer.NewAllocator, answer bool) {
	s := newStructured(newAllocator, c)
	ask := func(nodes []*corev1.Node) {
		if _, err := s.ask(b.Context(), c.Claims, nodes); err != nil {
			b.Fatal(err)
		}
	}
	views := viewQueue{changes: &changer{slices: slices.Clone(c.Slices)}, collected: func() { ask(nil) }}
	ask(c.Nodes)
	m := newMeter(b)
	for i := 0; m.loop(); i++ {
		*s = views.next(m, s)
		var nodes []*corev1.Node
		if answer {
			nodes = c.Nodes[views.changes.at(i):][:1]
		}
		ask(nodes)
	}
	m.report("", 0)
}

// BenchmarkFork is a private view of what is in use, for a what-if: 400,000 shares. The
// one with a write also allocates a claim. Upstream has its state copied.
func BenchmarkFork(b *testing.B) {
	c := newCluster("5000 nodes with shared NICs")
	sharesElsewhere(c, 400_000)
	state := peer.State(c.Case)
	b.Run(forkPath+"/impl="+upstreamName, func(b *testing.B) {
		m := newMeter(b)
		for m.loop() {
			_ = upstream.AllocatedState{
				AllocatedDevices:         state.AllocatedDevices.Clone(),
				AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs.Clone(),
				AggregatedCapacity:       state.AggregatedCapacity.Clone(),
			}
		}
		m.report("", 0)
	})
	ledger, err := ledgerOf(c.Case)
	if err != nil {
		b.Fatal(err)
	}
	c.runningShares(nicDriver, "elsewhere-123", "nic-4", 1, "10G")
	claim := c.Allocated[len(c.Allocated)-1]
	b.Run(forkPath+"/impl="+drayName, func(b *testing.B) {
		m := newMeter(b)
		for m.loop() {
			ledger.Branch()
		}
		m.report("", 0)
	})
	b.Run(forkPath+"/written/impl="+drayName, func(b *testing.B) {
		m := newMeter(b)
		for m.loop() {
			if err := ledger.Branch().Assume(claim); err != nil {
				b.Fatal(err)
			}
		}
		m.report("", 0)
	})
}
