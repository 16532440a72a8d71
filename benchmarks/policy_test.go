// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"
	"testing"

	"github.com/dray-project/dray/allocator"
)

// policyWorkloads are equal nodes with whole devices, with partitions and with shares.
var policyWorkloads = []string{"fleet/state=used/nodes=1000", "partitions/pod=three-mixed/shares-elsewhere=0/nodes=16", "shares/count=32/nodes=16"}

// forgetful is a policy that does not say what it reads, so that each node is searched by itself.
type forgetful struct{ policy allocator.Policy }

func (f forgetful) Before(a, b allocator.Candidate) bool { return f.policy.Before(a, b) }

var benchmarkPolicies = []struct {
	name   string
	policy allocator.Policy
}{
	{"first-fit", allocator.FirstFit{}},
	{"least-waste", allocator.LeastWaste{}},
	{"pack", allocator.Pack{}},
	{"first-fit-without-memory", forgetful{allocator.FirstFit{}}},
	{"least-waste-without-memory", forgetful{allocator.LeastWaste{}}},
}

// BenchmarkPolicy asks about all nodes of a cluster with policies of devices: for the next pod of those
// that ask for the same, of which answers are remembered, and for one that asks for something new.
func BenchmarkPolicy(b *testing.B) {
	for _, path := range policyWorkloads {
		c := clusterAt(b, path)
		for _, pod := range []Pod{NextPod, NewPod} {
			for _, p := range benchmarkPolicies {
				b.Run(fmt.Sprintf("%s/pod=%s/policy=%s", path, pod, p.name), func(b *testing.B) {
					opened, err := openNative(false)(c)
					if err != nil {
						b.Fatal(err)
					}
					s := opened.(*native)
					s.allocator = allocator.New(allocator.Options{Features: c.Features, Policy: p.policy})
					want := s.fitting(b, s.problem(b, pod, c), c.Nodes, 1)
					m := newMeter(b)
					for m.loop() {
						var next *allocator.Problem
						m.aside(func() { next = s.problem(b, pod, c) })
						if got := s.fitting(b, next, c.Nodes, 1); got != want {
							b.Fatalf("it fits on %d nodes, not %d", got, want)
						}
					}
					m.report("node", len(c.Nodes))
				})
			}
		}
	}
}
