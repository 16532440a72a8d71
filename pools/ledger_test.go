// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// everything turns all gates on.
var everything = Gates{PartitionableDevices: true, CompatibilityGroups: true, ConsumableCapacity: true}

// inside shows what is behind the wall.
func inside(l *Ledger) *cluster.State { return l.State().index() }

func mustAllocate(t *testing.T, l *Ledger, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	for _, claim := range claims {
		if err := l.Assume(claim); err != nil {
			t.Fatal(err)
		}
	}
}

// inUse lists the devices of pool "p" that are in use, shares in brackets.
func inUse(l *Ledger) string {
	p := inside(l).Snapshot().Pool(pool.ID{Driver: given.Driver, Name: "p"})
	usage := inside(l).Pool(p)
	var list []string
	for i := range p.Devices {
		name := p.Devices[i].Object.Name
		if usage.InUse(pool.DeviceIndex(i)) {
			list = append(list, name)
		}
		if usage.Shared(pool.DeviceIndex(i)) {
			list = append(list, "("+name+")")
		}
	}
	return strings.Join(list, " ")
}

func expect(t *testing.T, l *Ledger, want string) {
	t.Helper()
	if got := inUse(l); got != want {
		t.Errorf("in use: %q, want %q", got, want)
	}
}

func simplePool(names ...string) *Snapshot {
	return Build(everything, []*resourceapi.ResourceSlice{given.Slice("s", "p", given.Everywhere, given.Devices(names...))})
}

func TestLedgerAllocateAndRelease(t *testing.T) {
	l := NewLedger(simplePool("a", "b", "c", "d"))
	expect(t, l, "")
	mustAllocate(t, l,
		given.Claim("one", []string{"a"}),
		given.Claim("two", []string{"b", "c"}, given.Share("1", "3")),
		given.Claim("three", []string{"b"}, given.Share("2", "1500m")),
		given.Claim("watcher", []string{"d"}, given.Admin),
	)
	expect(t, l, "a (b) (c)")
	pool := inside(l).Snapshot().Pools()[0]
	if got := inside(l).Pool(pool).Consumed(1, "bandwidth"); got != quantity.Amount(resource.MustParse("4500m")) {
		t.Errorf("two shares hold %s of b, want 4500m", got)
	}
	before := inside(l)
	if err := l.Forget(given.Claim("two", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "a (b)")
	if got := inside(l).Pool(pool).Consumed(1, "bandwidth"); got != quantity.Amount(resource.MustParse("1500m")) {
		t.Errorf("one share holds %s of b, want 1500m", got)
	}
	if !before.Pool(pool).Shared(2) {
		t.Error("an earlier Usage changed")
	}
}

// Without the feature for shares, kube-scheduler takes a share for the whole device.
func TestLedgerWithoutShares(t *testing.T) {
	gates := everything
	gates.ConsumableCapacity = false
	l := NewLedger(Build(gates, []*resourceapi.ResourceSlice{given.Slice("s", "p", given.Everywhere, given.Devices("a", "b"))}))
	mustAllocate(t, l, given.Claim("one", []string{"a"}, given.Share("1", "3")))
	expect(t, l, "a")
}

func TestLedgerSurvivesHugeQuantities(t *testing.T) {
	l := NewLedger(simplePool("a"))
	mustAllocate(t, l, given.Claim("one", []string{"a"}, given.Share("1", "1e2000000000")), given.Claim("two", []string{"a"}, given.Share("2", "1n")))
	if got := inside(l).Pool(inside(l).Snapshot().Pools()[0]).Consumed(0, "bandwidth"); got.Cmp(amount.Limit) <= 0 {
		t.Errorf("consumed %s, want more than the limit", got)
	}
}

func TestLedgerErrors(t *testing.T) {
	l := NewLedger(simplePool("a"))
	claim := given.Claim("one", []string{"a"})
	mustAllocate(t, l, claim)
	pending := given.Claim("two", nil)
	pending.Status.Allocation = nil
	again := given.Claim("one", []string{"a"})
	again.UID = "another"
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"allocate twice":       {l.Assume(claim), `claim ns/one (UID "uid-one"): already in the ledger`},
		"allocate unallocated": {l.Assume(pending), "claim ns/two: status.allocation is not set"},
		"allocate nil":         {l.Assume(nil), "claim is nil"},
		"release unknown":      {l.Forget(pending), `claim ns/two (UID "uid-two"): not in the ledger`},
		"release other UID":    {l.Forget(again), `claim ns/one (UID "another"): not in the ledger`},
		"release nil":          {l.Forget(nil), "claim is nil"},
		"commit no branch":     {l.Commit(), "ledger is not a branch: there is nothing to commit to"},
	} {
		if test.err == nil || test.err.Error() != test.want {
			t.Errorf("%s: error %v, want %s", name, test.err, test.want)
		}
	}
	expect(t, l, "a")
}

func TestLedgerHolder(t *testing.T) {
	l := NewLedger(simplePool("a", "b"))
	mustAllocate(t, l,
		given.Claim("z", []string{"a"}, given.Share("1", "")),
		given.Claim("y", []string{"a", "a"}, given.Share("2", "")),
		given.Claim("x", []string{"elsewhere"}),
	)
	ref := func(name string) cluster.ClaimRef {
		claim := given.Claim(name, nil)
		return cluster.ClaimRef{Namespace: "ns", Name: name, UID: claim.UID, Request: "gpus"}
	}
	for device, want := range map[string][]cluster.ClaimRef{
		"a": {ref("y"), ref("y"), ref("z")}, "b": {}, "elsewhere": {ref("x")},
	} {
		if diff := cmp.Diff(want, inside(l).Holders(pool.DeviceID{Driver: given.Driver, Pool: "p", Device: device})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", device, diff)
		}
	}
}

func TestLedgerRebase(t *testing.T) {
	b := NewBuilder(everything)
	b.Set(given.Slice("s1", "p", given.Everywhere, given.Devices("a")), given.Slice("s2", "q", given.Everywhere, given.Devices("x")))
	l := NewLedger(b.Snapshot())
	mustAllocate(t, l, given.Claim("early", []string{"b"}), given.Claim("q", []string{"x"}, given.InPool("q")), given.Claim("new", []string{"n"}, given.InPool("new")))
	expect(t, l, "")
	q := b.Snapshot().index().Pool(pool.ID{Driver: given.Driver, Name: "q"})
	usageOfQ := inside(l).Pool(q)

	b.Set(given.Slice("s1", "p", given.Generation(2, 1), given.Everywhere, given.Devices("b", "c")), given.Slice("s3", "new", given.Everywhere, given.Devices("n")))
	ahead := b.Snapshot()
	if p := ahead.index().Pool(pool.ID{Driver: given.Driver, Name: "p"}); !inside(l).Pool(p).InUse(0) {
		t.Error("a device in a snapshot ahead of the ledger looks free")
	}
	l.Rebase(ahead)
	expect(t, l, "b")
	if inside(l).Pool(q) != usageOfQ {
		t.Error("the usage of an untouched pool was computed again")
	}
	if fresh := ahead.index().Pool(pool.ID{Driver: given.Driver, Name: "new"}); !inside(l).Pool(fresh).InUse(0) {
		t.Error("a device of a new pool looks free")
	}
	b.Delete("s3")
	l.Rebase(b.Snapshot())
	l.Rebase(simplePool("c", "b"))
	expect(t, l, "b")
	if err := l.Forget(given.Claim("early", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "")
}

func TestLedgerBranch(t *testing.T) {
	l := NewLedger(simplePool("a", "b", "c"))
	mustAllocate(t, l, given.Claim("one", []string{"a"}))
	branch, other := l.Branch(), l.Branch()
	mustAllocate(t, branch, given.Claim("two", []string{"b"}))
	inner := branch.Branch()
	if err := inner.Forget(given.Claim("one", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "a")
	expect(t, branch, "a b")
	expect(t, inner, "b")

	branch.Revert()
	expect(t, branch, "a")
	if err := inner.Commit(); err == nil {
		t.Error("committing to a parent that changed is no error")
	}
	mustAllocate(t, branch, given.Claim("three", []string{"c"}))
	if err := branch.Commit(); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "a c")
	if err := other.Commit(); err == nil || err.Error() != "the parent ledger changed since the branch" {
		t.Errorf("committing a second branch: error %v", err)
	}
	expect(t, other, "a")

	mustAllocate(t, branch, given.Claim("four", []string{"b"}))
	branch.Revert()
	expect(t, branch, "a c")
	mustAllocate(t, branch, given.Claim("five", []string{"b"}))
	if err := branch.Commit(); err != nil {
		t.Error("a branch cannot commit twice:", err)
	}
	expect(t, l, "a b c")
	l.Revert()
	expect(t, l, "")
}

func TestBranchesOfOneDeviceDoNotMix(t *testing.T) {
	l := NewLedger(simplePool("a"))
	for _, name := range []string{"one", "two", "three"} {
		mustAllocate(t, l, given.Claim(name, []string{"a"}, given.Share(name, "1")))
	}
	left, right := l.Branch(), l.Branch()
	mustAllocate(t, left, given.Claim("left", []string{"a"}, given.Share("4", "1")))
	mustAllocate(t, right, given.Claim("right", []string{"a"}, given.Share("5", "1")))
	a := pool.DeviceID{Driver: given.Driver, Pool: "p", Device: "a"}
	for branch, want := range map[*Ledger]string{l: "ns/one ns/three ns/two", left: "ns/left ns/one ns/three ns/two", right: "ns/one ns/right ns/three ns/two"} {
		var holders []string
		for _, ref := range inside(branch).Holders(a) {
			holders = append(holders, ref.String())
		}
		if got := strings.Join(holders, " "); got != want {
			t.Errorf("holders %q, want %q", got, want)
		}
	}
}

// Readers see whole claims or nothing while a writer allocates, releases, rebases
// and branches. Run with -race.
func TestLedgerReadersAndWriter(t *testing.T) {
	snapshots := []*Snapshot{simplePool("a", "b", "c"), simplePool("c", "b", "a")}
	l := NewLedger(snapshots[0])
	pair := given.Claim("pair", []string{"a", "b"})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				usage := inside(l)
				p := usage.Snapshot().Pools()[0]
				if u := usage.Pool(p); u.InUse(p.Lookup("a")[0]) != u.InUse(p.Lookup("b")[0]) {
					t.Error("half a claim is visible")
					return
				}
				p.Devices[0].Shape.Attribute("gpu.example.com/model")
			}
		})
	}
	for i := range 300 {
		l.Rebase(snapshots[i%2])
		branch := l.Branch()
		if branch.Assume(pair) != nil || branch.Commit() != nil || l.Forget(pair) != nil {
			t.Error("the only writer is refused")
			break
		}
	}
	close(done)
	readers.Wait()
}
