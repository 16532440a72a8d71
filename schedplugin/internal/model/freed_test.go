// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/dray-project/dray/pools"
)

// followed is a model that has seen all claims of a cluster once, and gets no events by itself.
func followed(t *testing.T, c *cluster) (*Model, *View) {
	t.Helper()
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		t.Fatal(err)
	}
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	return m, view
}

// Devices that came free are noticed without an event, and only these. The next observation has them.
func TestFreedSince(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cluster)
		want   bool
	}{
		"nothing":                     {func(*cluster) {}, false},
		"another object":              {func(c *cluster) { c.put("a", "a", "0") }, false},
		"deallocated":                 {func(c *cluster) { c.put("a", "a", "") }, true},
		"another device":              {func(c *cluster) { c.put("a", "a", "3") }, true},
		"deleted":                     {func(c *cluster) { delete(c.claims, "a") }, true},
		"made anew":                   {func(c *cluster) { c.put("a", "again", "") }, true},
		"made anew with the device":   {func(c *cluster) { c.put("a", "again", "0") }, true},
		"a new one has a device":      {func(c *cluster) { c.put("new", "new", "3") }, false},
		"one that had none is gone":   {func(c *cluster) { delete(c.claims, "idle") }, false},
		"it ceases to be in flight":   {func(c *cluster) { delete(c.pending, "flying") }, false},
		"deleted while it was flying": {func(c *cluster) { delete(c.pending, "flying"); delete(c.claims, "flying") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.put("a", "a", "0")
			c.put("b", "b", "1")
			c.put("idle", "idle", "")
			c.put("flying", "flying", "")
			c.pending["flying"] = allocation("2")
			m, view := followed(t, c)
			test.change(c)
			if freed, err := m.FreedSince(view); freed != test.want || err != nil {
				t.Errorf("freed %t, error %v, want %t", freed, err, test.want)
			}
			if got, want := inUse(t, m), c.expected(); test.want && !slices.Equal(got, want) {
				t.Errorf("the next observation has %v in use, want %v", got, want)
			}
			if now, err := m.Observe(); err != nil {
				t.Error(err)
			} else if freed, err := m.FreedSince(now); freed || err != nil {
				t.Errorf("freed since the last observation: %t, error %v", freed, err)
			}
		})
	}
}

// What another observation has seen came free since an older view, and not since a later one.
func TestFreedSinceOlderView(t *testing.T) {
	c := newCluster()
	c.put("a", "a", "0")
	m, old := followed(t, c)
	m.Changed(c.put("a", "a", ""), false)
	later, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	for view, want := range map[*View]bool{old: true, later: false} {
		if freed, err := m.FreedSince(view); freed != want || err != nil {
			t.Errorf("freed %t, error %v, want %t", freed, err, want)
		}
	}
}

// A claim that ceases to be in flight frees nothing that the API server knew of. Pods of a group have their claims in flight
// while the group is tried.
func TestFreedSinceInFlight(t *testing.T) {
	c := newCluster()
	flying := c.put("flying", "flying", "")
	c.pending["flying"] = allocation("2")
	m, view := followed(t, c)
	delete(c.pending, "flying")
	m.Changed(flying, false)
	if got := inUse(t, m); len(got) > 0 {
		t.Fatalf("%v in use", got)
	}
	if freed, err := m.FreedSince(view); freed || err != nil {
		t.Errorf("freed %t, error %v", freed, err)
	}
}

// Without events, each observation asks the manager. A list that fails is an error.
func TestFreedSinceWithoutEvents(t *testing.T) {
	c := newCluster()
	c.put("a", "a", "0")
	m := New(c, pools.Gates{})
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	c.put("a", "a", "")
	if freed, err := m.FreedSince(view); freed || err != nil {
		t.Errorf("without events: freed %t, error %v", freed, err)
	}
	m, view = followed(t, c)
	c.failing = c.listed + 1
	if _, err := m.FreedSince(view); err == nil {
		t.Error("the list failed, and there is no error")
	}
}

// telling is an informer whose events a test makes.
type telling struct {
	informer
	handler *cache.ResourceEventHandler
}

func (i telling) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	*i.handler = handler
	return nil, nil
}

// Each kind of event has the model look at its claim again.
func TestEventsOfClaims(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	var events cache.ResourceEventHandler
	if err := m.FollowEvents(telling{informer{cluster: c}, &events}); err != nil {
		t.Fatal(err)
	}
	check := func(event string) {
		t.Helper()
		if got, want := inUse(t, m), c.expected(); !slices.Equal(got, want) {
			t.Errorf("after %s, %v are in use, want %v", event, got, want)
		}
	}
	check("the start")
	events.OnAdd(c.put("a", "a", ""), false)
	check("an addition")
	before := c.claims["a"]
	events.OnUpdate(before, c.put("a", "a", "1"))
	check("an update")
	last := c.claims["a"]
	delete(c.claims, "a")
	events.OnDelete(last)
	check("a deletion")
	events.OnAdd(c.put("b", "b", "2"), false)
	check("the addition of one that has a device")
	last = c.claims["b"]
	delete(c.claims, "b")
	events.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/b", Obj: last})
	check("a deletion that was missed")
}
