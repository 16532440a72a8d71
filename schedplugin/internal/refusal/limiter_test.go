// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
)

// Pods by the thousand do not write more than the limits allow, and what was held back is
// said later.
func TestEventsAreLimited(t *testing.T) {
	limits := config.EventLimits{QPS: 0.001, Burst: 100, PodBurst: 2, PodPeriod: &metav1.Duration{Duration: 5 * time.Minute}}
	n := NewEventLimiter(t.Context(), &dynamicresources.DefaultDRAManager{}, limits)
	other := NewEventLimiter(t.Context(), &dynamicresources.DefaultDRAManager{}, limits)
	admitted := 0
	for range 3 { // rounds
		for pod := range 10_500 {
			if n.admit(types.UID(strconv.Itoa(pod)), 1) {
				admitted++
			}
		}
	}
	if admitted != 100 {
		t.Errorf("%d events of many pods, want 100", admitted)
	}
	admitted = 0
	for kind := range uint64(100) {
		if other.admit("p", kind+1) {
			admitted++
		}
	}
	if admitted != 2 {
		t.Errorf("%d events of one pod, want 2", admitted)
	}
	generous := config.EventLimits{QPS: 1e6, Burst: 1_000_000, PodBurst: 3, PodPeriod: &metav1.Duration{Duration: 5 * time.Minute}}
	n = NewEventLimiter(t.Context(), &dynamicresources.DefaultDRAManager{}, generous)
	admitted = 0
	for range 3 {
		for pod := range 10_500 {
			if n.admit(types.UID(strconv.Itoa(pod)), 1) {
				admitted++
			}
		}
	}
	if admitted != 10_500 {
		t.Errorf("%d events of pods whose situation does not change, want one for each", admitted)
	}
}

// counted is how many Events were written, and held back, as the endpoint says.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]float64)
	for _, family := range families {
		if family.GetName() == "dray_events_total" {
			for _, metric := range family.GetMetric() {
				counts[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return counts
}

// Events are counted as they are written or held back. What is not new is neither.
func TestEventsAreCounted(t *testing.T) {
	metrics.Register()
	n := NewEventLimiter(t.Context(), &dynamicresources.DefaultDRAManager{}, config.EventLimits{
		QPS: 0.001, Burst: 3, PodBurst: 2, PodPeriod: &metav1.Duration{Duration: time.Hour},
	})
	for _, test := range []struct {
		what, pod        string
		kind             uint64
		written, limited float64
	}{
		{"the first", "p", 1, 1, 0},
		{"nothing new", "p", 1, 0, 0},
		{"something new", "p", 2, 1, 0},
		{"too much about a pod", "p", 3, 0, 1},
		{"another pod", "q", 3, 1, 0},
		{"too much about all pods", "r", 3, 0, 1},
	} {
		before := counted(t)
		if got := n.admit(types.UID(test.pod), test.kind); got != (test.written > 0) {
			t.Errorf("%s: written %t", test.what, got)
		}
		after := counted(t)
		if written, limited := after["written"]-before["written"], after["limited"]-before["limited"]; written != test.written || limited != test.limited {
			t.Errorf("%s: %v written and %v held back, want %v and %v", test.what, written, limited, test.written, test.limited)
		}
	}
}

// The kind of an Event does not depend on the order of nodes, or on how many groups of nodes have a reason.
func TestKindOfRefusals(t *testing.T) {
	a, alsoA, b := &Refusal{Reason: "a", Nodes: []string{"n1"}}, &Refusal{Reason: "a", Nodes: []string{"n2"}}, &Refusal{Reason: "b", Nodes: []string{"n3"}}
	want := kindOf([]*Refusal{a, b})
	for name, refusals := range map[string][]*Refusal{"another order": {b, a}, "two groups with one reason": {a, b, alsoA}} {
		if kindOf(refusals) != want {
			t.Errorf("%s: another kind", name)
		}
	}
	for name, refusals := range map[string][]*Refusal{"a reason less": {a}, "the other reason": {b}, "none": nil} {
		if kindOf(refusals) == want {
			t.Errorf("%s: the same kind", name)
		}
	}
}

// If reasons differ from node to node, a limited number is kept, and a general one for the rest.
func TestReasonsHaveALimit(t *testing.T) {
	book := NewNodeRefusals()
	reasons := sets.New[string]()
	for i := range 1000 {
		reasons.Insert(book.Add(nil, fmt.Sprint("reason ", i), Error, fmt.Sprint("node-", i)))
	}
	if reasons.Len() != maxReasons+1 || !reasons.Has(Error) {
		t.Errorf("%d reasons: %v", reasons.Len(), reasons)
	}
}

// The last line of an Event is the link to the explanations, however long the text is.
func TestSummaryEndsWithGuide(t *testing.T) {
	var refusals []*Refusal
	for i := range 100 {
		refusals = append(refusals, &Refusal{Reason: fmt.Sprintf("reason %d", i), Nodes: []string{fmt.Sprintf("node-%d", i)}})
		got := summarize("the pod", refusals)
		if len(got) > maxNote || !strings.HasSuffix(got, guide) || i > 50 && !strings.HasSuffix(got, "\n…"+guide) {
			t.Fatalf("%d bytes for %d reasons:\n%s", len(got), i+1, got)
		}
	}
}

func TestNotesAreCut(t *testing.T) {
	long := strings.Repeat("a line of the explanation…\n", 100)
	got := Cut(long)
	if len(got) > maxNote || !strings.HasSuffix(got, "…\n…") || !strings.HasPrefix(long, strings.TrimSuffix(got, "\n…")) {
		t.Errorf("cut to %d: %q", len(got), got[len(got)-30:])
	}
	if got := Cut("short"); got != "short" {
		t.Errorf("cut to %q", got)
	}
}

// A note is cut at the end of a line, unless that is far from the limit. It stays valid text.
func TestCut(t *testing.T) {
	for name, test := range map[string]struct {
		note   string
		length int
		want   string
	}{
		"fits":            {"0123456789", 10, "0123456789"},
		"one too long":    {"01234567890", 10, "012345\n…"},
		"end of a line":   {"0123456\n89012", 12, "0123456\n…"},
		"line is too far": {"012345\n789012", 12, "012345\n7\n…"},
		"half a letter":   {"012345…8901", 11, "012345\n…"},
	} {
		if got := cut(test.note, test.length); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Nodes are counted, and three of them named.
func TestNodesOf(t *testing.T) {
	for want, nodes := range map[string][]string{
		"1 node (a)":           {"a"},
		"2 nodes (a, b)":       {"b", "a"},
		"3 nodes (a, b, c)":    {"c", "b", "a"},
		"4 nodes (a, b, c, …)": {"d", "c", "b", "a"},
	} {
		if got := nodesOf(nodes); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
