// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// A ledger without some claims is what one from scratch would be, whatever happened before. Who
// is told what changes asks again only about what changed.
func TestWithout(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		c := newCluster()
		lists, told := New(c, pools.Gates{}), New(c, pools.Gates{})
		if err := told.FollowEvents(informer{cluster: c}); err != nil {
			t.Fatal(err)
		}
		// left are the pods that are gone. Each claim has one, and those of hasty ones say so
		// without notice.
		left := make(map[types.UID]bool)
		gone := func(claim *resourceapi.ResourceClaim) (bool, bool) {
			for _, consumer := range claim.Status.ReservedFor {
				return left[consumer.UID], consumer.UID != "hasty"
			}
			if owner := metav1.GetControllerOf(claim); owner != nil {
				return left[owner.UID], owner.UID != "hasty"
			}
			return false, true
		}
		for range 40 {
			c.change(random, lists, told)
			for _, claim := range c.claims {
				if claim.Status.ReservedFor == nil && claim.OwnerReferences == nil {
					user := []types.UID{"slow", "other", "hasty"}[random.IntN(3)]
					if random.IntN(2) == 0 {
						claim.OwnerReferences = []metav1.OwnerReference{{UID: user, Controller: ptr.To(true)}}
					} else {
						claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: user}}
					}
				}
			}
			pod := []types.UID{"slow", "other", "hasty"}[random.IntN(3)]
			left[pod] = !left[pod]
			if pod != "hasty" {
				told.PodsChanged([]types.UID{pod})
			}
			var keep []*resourceapi.ResourceClaim
			if kept := c.claims[strconv.Itoa(random.IntN(4))]; kept != nil {
				keep = append(keep, kept)
			}
			for _, m := range []*Model{lists, told} {
				compareWithout(t, m, random.IntN(maxPartials+1), gone, keep)
			}
		}
	}
}

// compareWithout compares a ledger without claims with one from scratch.
func compareWithout(t *testing.T, m *Model, id int, gone Gone, keep []*resourceapi.ResourceClaim) {
	t.Helper()
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	want := pools.NewLedger(view.State.Snapshot())
	for at, known := range m.claims {
		kept := slices.ContainsFunc(keep, func(claim *resourceapi.ResourceClaim) bool { return keyOf(claim) == at })
		if absent, _ := gone(known.source); absent && !kept {
			continue
		}
		if err := want.Assume(known.inLedger); err != nil {
			t.Fatal(err)
		}
	}
	got, err := view.Without(id, gone, keep)
	if err != nil {
		t.Fatal(err)
	}
	if got == nil {
		got = view.Branch()
	}
	pool := firstPool(view)
	for device := range pool.Devices() {
		if got.State().Pool(pool).InUse(device) != want.State().Pool(pool).InUse(device) {
			t.Fatalf("device %s: in use %v", device.ID(), got.State().Pool(pool).InUse(device))
		}
	}
	for _, consumers := range m.consumers {
		for known := range consumers {
			if m.claims[key{known.inLedger.Namespace, known.inLedger.Name}] != known && m.claims[key{name: string(known.inLedger.UID)}] != known {
				t.Fatal("a claim that is gone is remembered by its consumers")
			}
		}
	}
}

// The number of calls of Gone does not grow with the claims that did not change.
func TestWithoutAsksOnce(t *testing.T) {
	const claims = 1000
	c := newCluster()
	for i := range claims {
		claim := c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), strconv.Itoa(i%devices))
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: types.UID(fmt.Sprint("pod-", i))}}
	}
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		t.Fatal(err)
	}
	asked := 0
	ask := func(want int) {
		t.Helper()
		view, err := m.Observe()
		if err != nil {
			t.Fatal(err)
		}
		asked = 0
		if _, err := view.Without("id", func(*resourceapi.ResourceClaim) (bool, bool) { asked++; return false, true }, nil); err != nil {
			t.Fatal(err)
		}
		if asked != want {
			t.Errorf("asked about %d claims, want %d", asked, want)
		}
	}
	ask(claims)
	ask(0)
	m.PodsChanged([]types.UID{"pod-7", "pod-8", "unknown"})
	ask(2)
	claim := c.put("claim-9", "9", "3")
	m.Changed(claim, false)
	ask(1)
	ask(0)
}
