// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
	"github.com/dray-project/dray/internal/dev/clustergen"
)

var features = cluster.Options{Features: allocator.AllFeatures(), ExtendedResources: true, GroupClaims: true}

func build(objects *input.Objects) (*cluster.Cluster, error) { return cluster.New(objects, features) }

// clusters are the examples, and generated ones. With -short there are fewer and none is large: the race detector takes its time.
func clusters(t *testing.T) map[string]*input.Objects {
	t.Helper()
	all := make(map[string]*input.Objects)
	folders, err := filepath.Glob("../../../../examples/*/README.md")
	if err != nil || len(folders) < 5 {
		t.Fatalf("%d examples, error %v", len(folders), err)
	}
	for _, readme := range folders {
		folder := filepath.Dir(readme)
		if testing.Short() && filepath.Base(folder) == "fleet-200" {
			continue
		}
		objects, err := input.Read([]string{folder}, strings.NewReader(""), input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(folder)] = objects
	}
	seeds := uint64(60)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		c := clustergen.Generate(seed, clustergen.Default)
		objects := input.NewObjects()
		objects.Nodes, objects.Slices, objects.Classes = c.Nodes, c.Slices, c.Classes
		objects.Claims = slices.Concat(c.Allocated, c.Claims)
		all[fmt.Sprintf("generated-%d", seed)] = objects
	}
	return all
}

func pictureOf(t *testing.T, objects *input.Objects) *Picture {
	t.Helper()
	c, err := build(objects)
	if err != nil {
		return nil // what cannot be used cannot be shown
	}
	p, err := NewPicture(t.Context(), c, Options{})
	switch {
	case err != nil && strings.Contains(err.Error(), "the value must be an integer"):
		return nil // nor can slices for nodes that no scheduler can tell
	case err != nil:
		t.Fatal(err)
	}
	return p
}

// A picture shows the devices of dray devices, with their states, and what dray explain says about waiting pods.
func TestPictureSaysTheSame(t *testing.T) {
	shown, all := 0, clusters(t)
	for name, objects := range all {
		p := pictureOf(t, objects)
		if p == nil {
			continue
		}
		shown++
		c, err := build(objects)
		if err != nil {
			t.Fatal(err)
		}
		states, err := c.Inventory(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(states) != len(p.Pools) || len(c.Nodes) != len(p.Nodes) {
			t.Fatalf("%s: %d pools and %d nodes, want %d and %d", name, len(p.Pools), len(p.Nodes), len(states), len(c.Nodes))
		}
		for i := range states {
			samePool(t, name, &states[i], &p.Pools[i])
		}
		sameAnswers(t, name, c, p)
		sameUsage(t, name, objects, p)
	}
	if shown*4 < len(all)*3 {
		t.Errorf("%d of %d clusters were shown, want three quarters", shown, len(all))
	}
}

func samePool(t *testing.T, name string, want *cluster.PoolState, got *Pool) {
	t.Helper()
	if got.Driver != want.Driver || got.Name != want.Pool || !slices.Equal(got.Nodes, want.Nodes) || len(got.Devices) != len(want.Devices) {
		t.Fatalf("%s: pool %s/%s, want %s/%s", name, got.Driver, got.Name, want.Driver, want.Pool)
	}
	for i := range want.Devices {
		state := want.State(&want.Devices[i])
		word := got.Devices[i].State
		if word == Tainted || word == Unreached {
			word = Free
		}
		if word != state || len(got.Devices[i].Held) != len(want.Devices[i].Holders) || got.Devices[i].Name != want.Devices[i].Name {
			t.Errorf("%s: device %s/%s/%s is %s with %d holders, want %s with %d", name, want.Driver, want.Pool, want.Devices[i].Name,
				got.Devices[i].State, len(got.Devices[i].Held), state, len(want.Devices[i].Holders))
		}
	}
}

// sameAnswers asks as dray explain does, of each workload in turn.
func sameAnswers(t *testing.T, name string, c *cluster.Cluster, p *Picture) {
	t.Helper()
	before, groups := 0, c.GangRun(false)
	for i, w := range c.Workloads() {
		together, err := groups.Turn(t.Context(), w, c.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		if together != nil {
			if got := p.Waiting[i]; got.Name != w.Key().Name || got.Node != together.Node || got.Reason != together.Reason {
				t.Errorf("%s: %s goes to %q (%s), want %s to go to %q with its group (%s)", name, got.Name, got.Node, got.Reason, w, together.Node, together.Reason)
			}
			if together.Placed() {
				before++
			}
			continue
		}
		surveyed, err := c.Survey(t.Context(), w, c.Nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer := render.NewAnswer(c, surveyed, before)
		got := p.Waiting[i]
		if got.Name != w.Key().Name || got.Node != answer.Node {
			t.Fatalf("%s: %s goes to %q, want %s to go to %q", name, got.Name, got.Node, w, answer.Node)
		}
		if surveyed.Placed() == (got.Answer >= 0) {
			t.Errorf("%s: %s: explanation %d, placed %t", name, w, got.Answer, surveyed.Placed())
		}
		if got.Answer >= 0 && !got.Like {
			if diff := cmp.Diff(asJSON(t, answer), asJSON(t, p.answers[got.Answer])); diff != "" {
				t.Errorf("%s: %s: the explanation differs (-explain +picture):\n%s", name, w, diff)
			}
		}
		if got.Answer >= 0 && (got.Reason == "" || answer.Headline() == "") {
			t.Errorf("%s: %s has no reason", name, w)
		}
		if _, err := c.Take(t.Context(), w, nil); err != nil {
			t.Fatal(err)
		}
		if surveyed.Placed() {
			before++
		}
	}
}

// sameUsage counts as dray usage does.
func sameUsage(t *testing.T, name string, objects *input.Objects, p *Picture) {
	t.Helper()
	reports := p.usages()
	if len(reports) < 4 {
		t.Errorf("%s: %d reports, want 4 at least", name, len(reports))
	}
	c, err := build(objects)
	if err != nil {
		t.Fatal(err)
	}
	for by, got := range reports {
		want, err := usage.Of(c, by)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s by %s: (-dray usage +picture):\n%s", name, by, diff)
		}
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// The pods of a group have a place together, or none has.
func TestPictureOfGroups(t *testing.T) {
	objects := clusters(t)["gang-halves"]
	both := pictureOf(t, objects)
	if len(both.Waiting) != 2 || both.Waiting[0].Node == "" || both.Waiting[1].Node == "" {
		t.Errorf("want that both pods of the group have a place: %+v", both.Waiting)
	}
	third := objects.Pods[1].DeepCopy()
	third.Name = "trainer-2"
	objects.Pods = append(slices.Clip(objects.Pods), third)
	objects.PodGroups[0] = objects.PodGroups[0].DeepCopy()
	objects.PodGroups[0].Spec.SchedulingPolicy.Gang.MinCount = 3
	for _, w := range pictureOf(t, objects).Waiting {
		if w.Node != "" || !strings.Contains(w.Reason, "2 of 3 pods fit together") {
			t.Errorf("%s goes to %q (%s), want that none has a place", w.Name, w.Node, w.Reason)
		}
	}
}

// The difference of two pictures, applied to the first, gives the second.
func TestDelta(t *testing.T) {
	objects := clusters(t)
	before := pictureOf(t, objects["mig-partitions"])
	changed := *objects["mig-partitions"]
	changed.Nodes = append(slices.Clone(changed.Nodes), objects["single-gpu"].Nodes...)
	changed.Slices = append(slices.Clone(changed.Slices), objects["single-gpu"].Slices...)
	c, err := build(&changed)
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewPicture(t.Context(), c, Options{Before: before})
	if err != nil {
		t.Fatal(err)
	}
	d := Compare(before, after)
	if d == nil || d.From != 1 || d.Revision != 2 {
		t.Fatalf("delta %+v", d)
	}
	if want := len(objects["single-gpu"].Nodes); len(d.Nodes) != want {
		t.Errorf("%d nodes differ, want %d", len(d.Nodes), want)
	}
	if len(d.Pools) != len(after.Pools)-len(before.Pools) || d.Notes != nil {
		t.Errorf("%d pools differ, want %d", len(d.Pools), len(after.Pools)-len(before.Pools))
	}
	if back := Compare(after, before); back != nil {
		t.Errorf("a picture without the shapes of an earlier one is compared: %+v", back)
	}
	held := *after
	held.Claims = map[string]Claim{"ns/goes": {}, "ns/changes": {Pods: []string{"a"}}, "ns/stays": {Pods: []string{"a"}}}
	later := held
	later.Claims = map[string]Claim{"ns/comes": {}, "ns/changes": {Pods: []string{"a", "b"}}, "ns/stays": {Pods: []string{"a"}}}
	claims := Compare(&held, &later).Claims
	if gone, found := claims["ns/goes"]; len(claims) != 3 || !found || gone != nil || claims["ns/comes"] == nil || claims["ns/changes"] == nil || len(claims["ns/changes"].Pods) != 2 {
		t.Errorf("claims differ: %v; want that one goes, one comes, and one changes", claims)
	}
	if same := Compare(after, after); same == nil || !same.Empty() {
		t.Errorf("a picture differs from itself: %+v", same)
	}
}

// A delta is empty if the page shows no difference, and each part of it may be one.
func TestEmptyDelta(t *testing.T) {
	if d := (&Delta{From: 1, Revision: 2, Time: "now"}); !d.Empty() {
		t.Errorf("not empty: %+v", d)
	}
	for name, d := range map[string]*Delta{
		"nodes": {Nodes: map[string]*Node{"n": nil}}, "pools": {Pools: map[string]*Pool{"p": nil}}, "claims": {Claims: map[string]*Claim{"c": nil}},
		"shapes": {Shapes: make([]Shape, 1)}, "waiting": {Waiting: new([]Waiting)}, "notes": {Notes: new([]string)},
	} {
		if d.Empty() {
			t.Errorf("%s differ, and it is empty", name)
		}
	}
}

// TestClaimSaysSinceWhen: a claim has the time of its allocation in UTC, if that is known.
func TestClaimSaysSinceWhen(t *testing.T) {
	zone := time.FixedZone("zone", 3600)
	claim := func(name string, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: resourceapi.ResourceClaimStatus{Allocation: allocation}}
	}
	at := metav1.NewTime(time.Date(2026, 11, 30, 1, 2, 3, 0, zone))
	c, err := build(&input.Objects{Claims: []*resourceapi.ResourceClaim{
		claim("known", &resourceapi.AllocationResult{AllocationTimestamp: &at}), claim("unknown", &resourceapi.AllocationResult{}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"known": "2026-11-30T00:02:03Z", "unknown": "", "gone": ""} {
		if got := newClaim(c, Held{namespace: "ns", name: name}).Since; got != want {
			t.Errorf("claim %s: since %q, want %q", name, got, want)
		}
	}
}
