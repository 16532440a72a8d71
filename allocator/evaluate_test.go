// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// observed is where a state finds out what is in use. It tells of each look at it.
type observed struct {
	source
	look func()
}

func (o observed) Pool(p *pool.Pool) *pool.Usage {
	o.look()
	return o.source.Pool(p)
}

// observe returns a state that tells of the first look at each pool.
func observe(l *pools.Ledger, look func()) *pools.State {
	return lazily(l, observed{source{(*cluster.State)(l.State())}, look})
}

func lazily(l *pools.Ledger, from cluster.Source) *pools.State {
	return (*pools.State)(cluster.NewLazyState((*cluster.State)(l.State()).Snapshot(), from))
}

// unlikeFleet has nodes with one to five GPUs of a model of their own, and a claim for three.
func unlikeFleet(size int) (*allocator.Problem, *pools.Ledger, []*corev1.Node) {
	var slices []*resourceapi.ResourceSlice
	var nodes []*corev1.Node
	for i := range size {
		name := fmt.Sprintf("node-%d", i)
		slices = append(slices, gpus(name, 1+i%5, fmt.Sprintf("model-%d", i)))
		nodes = append(nodes, node(name))
	}
	c := selecting(claim("c", 3), `device.attributes["gpu.example.com"].model != "none"`)
	return compile(allocator.Options{}, c), clusterOf(slices...), nodes
}

// Nodes that are not equivalent to others are searched by several goroutines.
func TestEvaluateWithSeveralGoroutines(t *testing.T) {
	problem, ledger, nodes := unlikeFleet(200)
	var inside, looks atomic.Int32
	together := make(chan struct{})
	var once sync.Once
	state := observe(ledger, func() {
		if inside.Add(1) > 1 {
			once.Do(func() { close(together) })
		}
		// One goroutine begins alone. From then on each waits for another.
		if looks.Add(1) > 20 {
			select {
			case <-together:
			case <-time.After(time.Minute):
				once.Do(func() { close(together) })
				t.Error("no two goroutines are at work at the same time")
			}
		}
		inside.Add(-1)
	})
	evaluation, err := problem.Evaluate(context.Background(), state, nodes, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		want := allocator.NotSatisfiable
		if 1+i%5 >= 3 {
			want = allocator.Satisfiable
		}
		if got := evaluation.Verdict(i); got != want {
			t.Errorf("%s: %s, expected %s", nodes[i].Name, got, want)
		}
	}
	select {
	case <-together:
	default:
		t.Error("there was nothing to do for a second goroutine")
	}
}

// Cancellation ends an evaluation that several goroutines are at.
func TestEvaluateIsCancelled(t *testing.T) {
	problem, ledger, nodes := unlikeFleet(200)
	cause := errors.New("the pod was deleted")
	ctx, cancel := context.WithCancelCause(context.Background())
	var looks atomic.Int32
	state := observe(ledger, func() {
		if looks.Add(1) == 60 {
			cancel(cause)
		}
	})
	if evaluation, err := problem.Evaluate(ctx, state, nodes, 4); !errors.Is(err, cause) || evaluation != nil {
		t.Errorf("%v, expected %v", err, cause)
	}
}
