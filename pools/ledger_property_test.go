// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// ledgerModel is a ledger and what it must agree with: the claims it should hold.
type ledgerModel struct {
	ledger           *Ledger
	parent           *ledgerModel
	claims, base     map[string]*resourceapi.ResourceClaim
	snapshot, baseOn *Snapshot
	// version tells whether the parent changed since the branch.
	version, baseVersion int
}

func (m *ledgerModel) changed(versions *int) {
	*versions++
	m.version = *versions
}

// describe prints the usage of all pools.
func describe(l *Ledger) string {
	var text string
	for _, p := range inside(l).Snapshot().Pools() {
		u := inside(l).Pool(p)
		text += fmt.Sprint(p.ID, u.Left)
		for i := range p.Devices {
			i := pool.DeviceIndex(i)
			text += fmt.Sprintf("\n  %s %t %t %s %d", p.DeviceID(i), u.InUse(i), u.Shared(i), u.Consumed(i, "bandwidth"), len(inside(l).Holders(p.DeviceID(i))))
		}
		text += "\n"
	}
	return text
}

func (m *ledgerModel) check(t *rapid.T) {
	scratch := NewLedger(m.snapshot)
	for _, claim := range m.claims {
		if err := scratch.Assume(claim); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(describe(scratch), describe(m.ledger)); diff != "" {
		t.Fatalf("from scratch (-), incrementally (+):\n%s", diff)
	}
}

func drawClaim(t *rapid.T) *resourceapi.ResourceClaim {
	claim := given.Claim(rapid.SampledFrom([]string{"c0", "c1", "c2", "c3"}).Draw(t, "claim"), nil)
	for range rapid.IntRange(0, 3).Draw(t, "results") {
		var options []given.ClaimOption
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			options = append(options, given.Share("s", ""))
		case 1:
			options = append(options, given.Share("s", rapid.SampledFrom([]string{"1", "2500m", "1Gi"}).Draw(t, "bandwidth")))
		case 2:
			options = append(options, given.Admin)
		}
		options = append(options, given.InPool(rapid.SampledFrom([]string{"p", "p", "p", "q"}).Draw(t, "pool")))
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "device")
		one := given.Claim("", []string{name}, options...)
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, one.Status.Allocation.Devices.Results...)
	}
	return claim
}

// ledgerSnapshots are a history of a cluster and one that shares nothing with it.
func ledgerSnapshots() []*Snapshot {
	b := NewBuilder(everything)
	b.Set(given.PartitionedPool()...)
	history := []*Snapshot{b.Snapshot()}
	b.Set(given.Slice("s4", "q", given.Everywhere, given.Devices("a", "b")))
	history = append(history, b.Snapshot())
	b.Set(given.Slice("s1", "p", given.Count(3), given.OnNode("worker"), given.Device("e", given.Consumes("gpu-0", "5", "x")), given.Device("d", given.Multiple)))
	history = append(history, b.Snapshot())
	b.Delete("s4")
	return append(history, b.Snapshot(), Build(everything, given.PartitionedPool()), Build(everything, nil))
}

// After any sequence of operations on a ledger and its branches, each is what it would
// be if it had been built from its claims at once.
func TestLedgerAgreesWithScratch(t *testing.T) {
	history := ledgerSnapshots()
	rapid.Check(t, func(t *rapid.T) {
		root := &ledgerModel{ledger: NewLedger(history[0]), snapshot: history[0], baseOn: history[0]}
		models, versions := []*ledgerModel{root}, 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			m := rapid.SampledFrom(models).Draw(t, "ledger")
			switch operation := rapid.SampledFrom([]string{"allocate", "allocate", "allocate", "release", "rebase", "branch", "commit", "revert"}).Draw(t, "operation"); operation {
			case "branch":
				models = append(models, m.branch())
			default:
				m.apply(t, operation, history, &versions)
			}
			for _, m := range models {
				m.check(t)
			}
		}
	})
}

func (m *ledgerModel) branch() *ledgerModel {
	return &ledgerModel{
		ledger: m.ledger.Branch(), parent: m,
		claims: m.claims, base: m.claims,
		snapshot: m.snapshot, baseOn: m.snapshot,
		version: m.version, baseVersion: m.version,
	}
}

func (m *ledgerModel) apply(t *rapid.T, operation string, history []*Snapshot, versions *int) {
	switch operation {
	case "allocate", "release":
		m.applyClaim(t, operation, versions)
	case "rebase":
		m.snapshot = rapid.SampledFrom(history).Draw(t, "snapshot")
		m.ledger.Rebase(m.snapshot)
		m.changed(versions)
	case "commit":
		allowed := m.parent != nil && m.parent.version == m.baseVersion
		if err := m.ledger.Commit(); (err == nil) != allowed {
			t.Fatalf("commit: error %v, allowed %t", err, allowed)
		}
		if allowed {
			m.parent.claims, m.parent.snapshot, m.parent.version = m.claims, m.snapshot, m.version
			m.base, m.baseOn, m.baseVersion = m.claims, m.snapshot, m.version
		}
	case "revert":
		m.ledger.Revert()
		m.claims, m.snapshot, m.version = m.base, m.baseOn, m.baseVersion
	}
}

func (m *ledgerModel) applyClaim(t *rapid.T, operation string, versions *int) {
	claim := drawClaim(t)
	_, held := m.claims[claim.Name]
	claims := maps.Clone(m.claims)
	if claims == nil {
		claims = make(map[string]*resourceapi.ResourceClaim)
	}
	var err error
	if operation == "allocate" {
		err, claims[claim.Name] = m.ledger.Assume(claim), claim
	} else {
		err, held = m.ledger.Forget(claim), !held
		delete(claims, claim.Name)
	}
	if (err != nil) != held {
		t.Fatalf("%s %s: error %v", operation, claim.Name, err)
	}
	if err == nil {
		m.claims = claims
		m.changed(versions)
	}
}

// Assuming several claims at once is assuming one after the other, whatever is held already. If one of them
// is an error, it is the same error, and none of them is held.
func TestAssumeAllIsAssumeOfEach(t *testing.T) {
	history := ledgerSnapshots()
	rapid.Check(t, func(t *rapid.T) {
		before := NewLedger(rapid.SampledFrom(history).Draw(t, "snapshot"))
		for range rapid.IntRange(0, 2).Draw(t, "held") {
			_ = before.Assume(drawClaim(t)) // unless it is held already
		}
		var claims []*resourceapi.ResourceClaim
		for range rapid.IntRange(0, 4).Draw(t, "claims") {
			claim := drawClaim(t)
			switch rapid.IntRange(0, 20).Draw(t, "fault") {
			case 0:
				claim = nil
			case 1:
				claim.Status.Allocation = nil
			}
			claims = append(claims, claim)
		}
		one, all := before.Branch(), before.Branch()
		var want error
		for _, claim := range claims {
			if want = one.Assume(claim); want != nil {
				one.Revert()
				break
			}
		}
		if got := all.AssumeAll(claims); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("error %v, want %v", got, want)
		}
		next := rapid.SampledFrom(history).Draw(t, "next snapshot")
		for _, change := range []func(*Ledger){
			func(*Ledger) {},
			func(l *Ledger) { l.Rebase(next) },
			func(l *Ledger) { forgetAll(t, l, claims, want == nil) },
		} {
			change(one)
			change(all)
			if diff := cmp.Diff(describe(one), describe(all)); diff != "" {
				t.Fatalf("one after the other (-), at once (+):\n%s", diff)
			}
		}
	})
}

func forgetAll(t *rapid.T, l *Ledger, claims []*resourceapi.ResourceClaim, held bool) {
	for _, claim := range claims {
		if err := l.Forget(claim); held && err != nil {
			t.Fatal(err)
		}
	}
}
