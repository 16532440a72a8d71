// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/oracle"
)

const (
	// comparedNodes is how many nodes upstream is asked about for kinds of pods other
	// than the first of a workload.
	comparedNodes = 20
	// verifiedNodes is how many results per workload are checked from first principles.
	verifiedNodes = 8
)

// agree checks that all implementations give upstream's answers, to pods of all kinds,
// twice, so that what is remembered is checked as well; and that these are correct. The
// sessions know the cluster then.
func agree(tb testing.TB, w *Workload, c *alloctest.Case) (sessions []session) {
	tb.Helper()
	sessions = make([]session, len(implementations))
	for i := range implementations {
		sessions[i] = implementations[i].mustOpen(tb, c)
	}
	for k, pod := range w.Pods {
		nodes := w.nodes(c, upstreamName)
		if k > 0 {
			nodes = spread(nodes, comparedNodes)
		}
		compare(tb, c, sessions, nodes, pod.Claims(c, nextPod()))
		if pod == NextPod {
			agreeOnNext(tb, c, sessions, nodes)
		}
	}
	if w.Sample > 0 {
		compare(tb, c, sessions[1:], c.Nodes, w.Pods[0].Claims(c, nextPod()))
	}
	return sessions
}

// agreeOnNext checks the answers when the pod before has got its devices.
func agreeOnNext(tb testing.TB, c *alloctest.Case, sessions []session, nodes []*corev1.Node) {
	tb.Helper()
	placed := *c
	placed.Allocated = slices.Clone(c.Allocated)
	claims := NextPod.Claims(c, nextPod())
	for _, s := range sessions {
		a, err := s.ask(tb.Context(), claims, nodes)
		if err != nil {
			tb.Fatal(err)
		}
		place(tb, s, claims, a, len(nodes))
	}
	if claims[0].Status.Allocation != nil {
		placed.Allocated = append(placed.Allocated, claims...)
	}
	compare(tb, &placed, sessions, nodes, NextPod.Claims(c, nextPod()))
	for _, s := range sessions {
		if err := s.take(nil); err != nil {
			tb.Fatal(err)
		}
	}
}

// compare asks all sessions the same and wants the answers of the first.
func compare(tb testing.TB, c *alloctest.Case, sessions []session, nodes []*corev1.Node, claims []*resourceapi.ResourceClaim) {
	tb.Helper()
	var want answers
	for i, s := range append(sessions, sessions[1:]...) {
		got, err := s.ask(tb.Context(), claims, nodes)
		if err != nil {
			tb.Fatal(err)
		}
		if i == 0 {
			want = got
			verify(tb, c, nodes, claims, got)
			continue
		}
		for n, node := range nodes {
			if got.fits(n) != want.fits(n) {
				tb.Fatalf("%s: on %s %T says %v", c.Name, node.Name, s, got.fits(n))
			}
			if diff := oracle.Equal(want.results(n), got.results(n)); diff != "" {
				tb.Fatalf("%s: on %s %T differs: %s", c.Name, node.Name, s, diff)
			}
		}
	}
}

func verify(tb testing.TB, c *alloctest.Case, nodes []*corev1.Node, claims []*resourceapi.ResourceClaim, a answers) {
	tb.Helper()
	for i := 0; i < len(nodes); i += max(1, len(nodes)/verifiedNodes) {
		asked := *c
		asked.Node, asked.Claims = nodes[i].Name, claims
		if !a.fits(i) {
			continue
		}
		if err := oracle.Verify(&asked, a.results(i)); err != nil {
			tb.Fatalf("%s: on %s: %v", c.Name, nodes[i].Name, err)
		}
	}
}
