// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/benchmarks"
	"github.com/dray-project/dray/pools"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// differing are the workloads, by the start of their path, that Karpenter answers
// otherwise than Kubernetes does. There is no point in timing these.
var differing = []struct {
	path    string
	verdict verdict
}{
	{"per-device-nodes/", wrongNo},
	{"partitions/pod=three-mixed/", wrongNo},
	{"partitions/pod=eight-mixed/", wrongNo},
	{"shares/count=32/", wrongYes},
}

func expected(w *benchmarks.Workload) verdict {
	for _, d := range differing {
		if strings.HasPrefix(w.Path(), d.path) {
			return d.verdict
		}
	}
	return same
}

const (
	// nodesCompared and nodesAsked bound how many nodes of a workload Karpenter is asked
	// about: it takes up to 60 ms for one.
	nodesCompared = 8
	nodesAsked    = 4
)

// TestWorkloads wants Karpenter's answers to be those of Kubernetes, device by device,
// but for those that are known to differ.
func TestWorkloads(t *testing.T) {
	for _, w := range benchmarks.Workloads() {
		t.Run(w.Path(), func(t *testing.T) {
			c := w.Build()
			agree(t, c, expected(&w))
		})
	}
}

func agree(tb testing.TB, c *alloctest.Case, want verdict) {
	tb.Helper()
	s, ledger := newSession(c, published(c.Slices)), mustLedger(tb, c)
	a := allocator.New(allocator.Options{Features: c.Features})
	for _, pod := range kindsOfPods {
		claims := pod.Claims(c, 1)
		problem, err := a.Compile(claims, allocator.ClassMap(c.Classes...))
		if err != nil {
			tb.Fatal(err)
		}
		for _, node := range spread(c.Nodes, nodesCompared) {
			outcome, err := problem.Allocate(tb.Context(), ledger.State(), node)
			if err != nil {
				tb.Fatal(err)
			}
			if got := s.compare(tb.Context(), claims, newExistingNode(node), chosen(outcome)); got != want {
				tb.Fatalf("%s: for %s pods on %s Karpenter's answer is: %s", c.Name, pod, node.Name, got)
			}
		}
	}
}

// chosen are the devices of an answer of Dray's, nil if there is none.
func chosen(outcome allocator.Outcome) []device {
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		return nil
	}
	devices := []device{}
	for _, c := range assignment.Choices() {
		devices = append(devices, device{claim: c.Claim, id: c.Device})
	}
	return devices
}

// kindsOfPods are what Dray answers fast, as usual and slowly. To Karpenter they are equal.
var kindsOfPods = []benchmarks.Pod{benchmarks.EqualPod, benchmarks.NewPod, benchmarks.FirstPod}

// spread picks n nodes from all over the cluster, in different states of use.
func spread(nodes []*corev1.Node, n int) []*corev1.Node {
	var picked []*corev1.Node
	for i := range min(n, len(nodes)) {
		picked = append(picked, nodes[i*len(nodes)/min(n, len(nodes))])
	}
	return picked
}

// ask says on how many nodes a pod with claims gets its devices.
type ask func(ctx context.Context, claims []*resourceapi.ResourceClaim) (fitting int, err error)

// implementation takes a cluster, and nodes of it to be asked about.
type implementation struct {
	name string
	open func(c *alloctest.Case, nodes []*corev1.Node) (ask, error)
	// remembers is set if a first pod costs more than others.
	remembers bool
	// nodes bounds how many nodes are asked about.
	nodes func(nodes []*corev1.Node) []*corev1.Node
}

var implementations = []implementation{
	{"karpenter", openKarpenter, false, func(nodes []*corev1.Node) []*corev1.Node { return spread(nodes, nodesAsked) }},
	{"dray", openDray, true, func(nodes []*corev1.Node) []*corev1.Node { return nodes }},
}

func openKarpenter(c *alloctest.Case, nodes []*corev1.Node) (ask, error) {
	s, existing := newSession(c, published(c.Slices)), existingNodes(nodes)
	return func(ctx context.Context, claims []*resourceapi.ResourceClaim) (fitting int, err error) {
		for _, node := range existing {
			switch _, err := s.allocator.Allocate(ctx, node, claims); {
			case err == nil:
				fitting++
			case err.Error() != noInstanceType:
				return 0, err
			}
		}
		return fitting, nil
	}, nil
}

func openDray(c *alloctest.Case, nodes []*corev1.Node) (ask, error) {
	ledger, err := ledgerOf(c)
	if err != nil {
		return nil, err
	}
	a, classes := allocator.New(allocator.Options{Features: c.Features}), allocator.ClassMap(c.Classes...)
	return func(ctx context.Context, claims []*resourceapi.ResourceClaim) (fitting int, err error) {
		problem, err := a.Compile(claims, classes)
		if err != nil {
			return 0, err
		}
		evaluation, err := problem.Evaluate(ctx, ledger.State(), nodes, 1)
		if err != nil {
			return 0, err
		}
		return countFitting(evaluation)
	}, nil
}

func countFitting(e *allocator.Evaluation) (fitting int, err error) {
	for i := range e.Len() {
		switch e.Verdict(i) {
		case allocator.Satisfiable:
			fitting++
		case allocator.NoVerdict:
			_, err := e.Outcome(i)
			return 0, errors.Join(fmt.Errorf("no verdict on %s", e.Node(i).Name), err)
		}
	}
	return fitting, nil
}

func mustLedger(tb testing.TB, c *alloctest.Case) *pools.Ledger {
	tb.Helper()
	ledger, err := ledgerOf(c)
	if err != nil {
		tb.Fatal(err)
	}
	return ledger
}

func ledgerOf(c *alloctest.Case) (*pools.Ledger, error) {
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Assume(claim); err != nil {
			return nil, err
		}
	}
	return ledger, nil
}

// BenchmarkWorkload asks for one pod after the other. Karpenter is asked about some of
// the nodes, so that cpu-ns/node is what compares.
func BenchmarkWorkload(b *testing.B) {
	for _, w := range benchmarks.Workloads() {
		if expected(&w) != same {
			continue
		}
		b.Run(w.Path(), func(b *testing.B) {
			c := w.Build()
			agree(b, c, same)
			for _, pod := range kindsOfPods {
				for _, impl := range implementations {
					b.Run(fmt.Sprintf("pod=%s/impl=%s", pod, impl.name), func(b *testing.B) { measure(b, &impl, pod, c) })
				}
			}
		})
	}
}

func measure(b *testing.B, impl *implementation, pod benchmarks.Pod, c *alloctest.Case) {
	nodes := impl.nodes(c.Nodes)
	a := mustOpen(b, impl, c, nodes)
	claims := pod.Claims(c, 1)
	want, err := a(b.Context(), claims)
	if err != nil {
		b.Fatal(err)
	}
	m, asked := newMeter(b), 1
	for m.loop() {
		asked++
		switch {
		case pod == benchmarks.NewPod:
			m.aside(func() { claims = pod.Claims(c, asked) })
		case pod == benchmarks.FirstPod && impl.remembers:
			m.aside(func() { a = mustOpen(b, impl, c, nodes) })
		}
		if got, err := a(b.Context(), claims); err != nil || got != want {
			b.Fatalf("fits on %d of %d nodes, not %d: %v", got, len(nodes), want, err)
		}
	}
	m.report("node", len(nodes))
}

func mustOpen(b *testing.B, impl *implementation, c *alloctest.Case, nodes []*corev1.Node) ask {
	a, err := impl.open(c, nodes)
	if err != nil {
		b.Fatal(err)
	}
	return a
}
