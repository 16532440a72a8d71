package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// observed is a Usage that tells of each look at it.
type observed struct {
	*pools.Usage
	look func()
}

func (o observed) Pool(p *pools.Pool) *pools.PoolUsage {
	o.look()
	return o.Usage.Pool(p)
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
	return compile(allocator.Options{}, c), cluster(slices...), nodes
}

// Nodes that are like no other are searched by several goroutines at once.
func TestEvaluateInCompany(t *testing.T) {
	problem, ledger, nodes := unlikeFleet(200)
	var inside atomic.Int32
	var together atomic.Bool
	usage := observed{ledger.Usage(), func() {
		if inside.Add(1) > 1 {
			together.Store(true)
		}
		time.Sleep(100 * time.Microsecond)
		inside.Add(-1)
	}}
	evaluation, err := problem.Evaluate(context.Background(), ledger.Snapshot(), usage, nodes, 4)
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
	if !together.Load() {
		t.Error("no two goroutines were at work at the same time")
	}
}

// Cancellation ends an evaluation that several goroutines are at.
func TestEvaluateIsCancelled(t *testing.T) {
	problem, ledger, nodes := unlikeFleet(200)
	cause := errors.New("the pod was deleted")
	ctx, cancel := context.WithCancelCause(context.Background())
	var looks atomic.Int32
	usage := observed{ledger.Usage(), func() {
		if looks.Add(1) == 60 {
			cancel(cause)
		}
	}}
	if evaluation, err := problem.Evaluate(ctx, ledger.Snapshot(), usage, nodes, 4); !errors.Is(err, cause) || evaluation != nil {
		t.Errorf("%v, expected %v", err, cause)
	}
}
