package pools

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
)

func mustAllocate(t *testing.T, l *Ledger, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	for _, claim := range claims {
		if err := l.Allocate(claim); err != nil {
			t.Fatal(err)
		}
	}
}

// inUse lists the devices of pool "p" that are in use, shares in brackets.
func inUse(l *Ledger) string {
	pool := l.Snapshot().Pool(PoolID{testDriver, "p"})
	usage := l.Usage().Pool(pool)
	var list []string
	for i := range pool.Devices {
		name := pool.Devices[i].Object.Name
		if usage.InUse(DeviceIndex(i)) {
			list = append(list, name)
		}
		if usage.Shared(DeviceIndex(i)) {
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
	return Build(allGates, objects{newSlice("s", "p", everywhere, devices(names...))})
}

func TestLedgerAllocateAndRelease(t *testing.T) {
	l := NewLedger(simplePool("a", "b", "c", "d"))
	expect(t, l, "")
	mustAllocate(t, l,
		newClaim("one", []string{"a"}),
		newClaim("two", []string{"b", "c"}, share("1", "3")),
		newClaim("three", []string{"b"}, share("2", "1500m")),
		newClaim("watcher", []string{"d"}, admin),
	)
	expect(t, l, "a (b) (c)")
	pool := l.Snapshot().Pools()[0]
	if got := l.Usage().Pool(pool).Consumed(1, "bandwidth"); got != number("4500m") {
		t.Errorf("two shares hold %s of b, want 4500m", got)
	}
	before := l.Usage()
	if err := l.Release(newClaim("two", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "a (b)")
	if got := l.Usage().Pool(pool).Consumed(1, "bandwidth"); got != number("1500m") {
		t.Errorf("one share holds %s of b, want 1500m", got)
	}
	if !before.Pool(pool).Shared(2) {
		t.Error("an earlier Usage changed")
	}
}

// Without the feature for shares, kube-scheduler takes a share for the whole device.
func TestLedgerWithoutShares(t *testing.T) {
	gates := allGates
	gates.ConsumableCapacity = false
	l := NewLedger(Build(gates, objects{newSlice("s", "p", everywhere, devices("a", "b"))}))
	mustAllocate(t, l, newClaim("one", []string{"a"}, share("1", "3")))
	expect(t, l, "a")
}

func TestLedgerSurvivesHugeQuantities(t *testing.T) {
	l := NewLedger(simplePool("a"))
	mustAllocate(t, l, newClaim("one", []string{"a"}, share("1", "1e2000000000")), newClaim("two", []string{"a"}, share("2", "1n")))
	if got := l.Usage().Pool(l.Snapshot().Pools()[0]).Consumed(0, "bandwidth"); got.Cmp(amount.Limit) <= 0 {
		t.Errorf("consumed %s, want more than the limit", got)
	}
}

func TestLedgerErrors(t *testing.T) {
	l := NewLedger(simplePool("a"))
	claim := newClaim("one", []string{"a"})
	mustAllocate(t, l, claim)
	pending := newClaim("two", nil)
	pending.Status.Allocation = nil
	again := newClaim("one", []string{"a"})
	again.UID = "another"
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"allocate twice":       {l.Allocate(claim), `claim ns/one (UID "uid-one"): already in the ledger`},
		"allocate unallocated": {l.Allocate(pending), "claim ns/two: status.allocation is not set"},
		"allocate nil":         {l.Allocate(nil), "claim is nil"},
		"release unknown":      {l.Release(pending), `claim ns/two (UID "uid-two"): not in the ledger`},
		"release other UID":    {l.Release(again), `claim ns/one (UID "another"): not in the ledger`},
		"release nil":          {l.Release(nil), "claim is nil"},
		"commit no fork":       {l.Commit(), "ledger is not a fork: there is nothing to commit to"},
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
		newClaim("z", []string{"a"}, share("1", "")),
		newClaim("y", []string{"a", "a"}, share("2", "")),
		newClaim("x", []string{"elsewhere"}),
	)
	ref := func(name string) ClaimRef {
		claim := newClaim(name, nil)
		return ClaimRef{Namespace: "ns", Name: name, UID: claim.UID, Request: "gpus"}
	}
	for device, want := range map[string][]ClaimRef{
		"a": {ref("y"), ref("y"), ref("z")}, "b": {}, "elsewhere": {ref("x")},
	} {
		if diff := cmp.Diff(want, l.Holder(DeviceID{testDriver, "p", device})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", device, diff)
		}
	}
}

func TestLedgerRebase(t *testing.T) {
	b := NewBuilder(allGates)
	b.Set(newSlice("s1", "p", everywhere, devices("a")), newSlice("s2", "q", everywhere, devices("x")))
	l := NewLedger(b.Snapshot())
	mustAllocate(t, l, newClaim("early", []string{"b"}), newClaim("q", []string{"x"}, inPool("q")), newClaim("new", []string{"n"}, inPool("new")))
	expect(t, l, "")
	q := b.Snapshot().Pool(PoolID{testDriver, "q"})
	usageOfQ := l.Usage().Pool(q)

	b.Set(newSlice("s1", "p", generation(2, 1), everywhere, devices("b", "c")), newSlice("s3", "new", everywhere, devices("n")))
	ahead := b.Snapshot()
	if p := ahead.Pool(PoolID{testDriver, "p"}); !l.Usage().Pool(p).InUse(0) {
		t.Error("a device in a snapshot ahead of the ledger looks free")
	}
	l.Rebase(ahead)
	expect(t, l, "b")
	if l.Usage().Pool(q) != usageOfQ {
		t.Error("the usage of an untouched pool was computed again")
	}
	if fresh := ahead.Pool(PoolID{testDriver, "new"}); !l.Usage().Pool(fresh).InUse(0) {
		t.Error("a device of a new pool looks free")
	}
	for _, p := range ahead.Pools() {
		if l.Usage().pools.Get(p.slot).pool != p {
			t.Errorf("the usage of %s was not computed ahead", p.ID)
		}
	}
	b.Delete("s3")
	slot := ahead.Pool(PoolID{testDriver, "new"}).slot
	l.Rebase(b.Snapshot())
	if l.Usage().pools.Get(slot) != nil {
		t.Error("the usage of a pool that is gone is kept")
	}
	l.Rebase(simplePool("c", "b"))
	expect(t, l, "b")
	if err := l.Release(newClaim("early", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "")
	if l.Usage().Snapshot() != l.Snapshot() {
		t.Error("usage and ledger disagree on the snapshot")
	}
}

func TestLedgerFork(t *testing.T) {
	l := NewLedger(simplePool("a", "b", "c"))
	mustAllocate(t, l, newClaim("one", []string{"a"}))
	fork, other := l.Fork(), l.Fork()
	mustAllocate(t, fork, newClaim("two", []string{"b"}))
	inner := fork.Fork()
	if err := inner.Release(newClaim("one", nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "a")
	expect(t, fork, "a b")
	expect(t, inner, "b")

	fork.Revert()
	expect(t, fork, "a")
	if err := inner.Commit(); err == nil {
		t.Error("committing to a parent that changed is no error")
	}
	mustAllocate(t, fork, newClaim("three", []string{"c"}))
	if err := fork.Commit(); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "a c")
	if err := other.Commit(); err == nil || err.Error() != "the parent ledger changed since the fork" {
		t.Errorf("committing a second fork: error %v", err)
	}
	expect(t, other, "a")

	mustAllocate(t, fork, newClaim("four", []string{"b"}))
	fork.Revert()
	expect(t, fork, "a c")
	mustAllocate(t, fork, newClaim("five", []string{"b"}))
	if err := fork.Commit(); err != nil {
		t.Error("a fork cannot commit twice:", err)
	}
	expect(t, l, "a b c")
	l.Revert()
	expect(t, l, "")
}

func TestForksOfOneDeviceDoNotMix(t *testing.T) {
	l := NewLedger(simplePool("a"))
	for _, name := range []string{"one", "two", "three"} {
		mustAllocate(t, l, newClaim(name, []string{"a"}, share(name, "1")))
	}
	left, right := l.Fork(), l.Fork()
	mustAllocate(t, left, newClaim("left", []string{"a"}, share("4", "1")))
	mustAllocate(t, right, newClaim("right", []string{"a"}, share("5", "1")))
	a := DeviceID{testDriver, "p", "a"}
	for fork, want := range map[*Ledger]string{l: "ns/one ns/three ns/two", left: "ns/left ns/one ns/three ns/two", right: "ns/one ns/right ns/three ns/two"} {
		var holders []string
		for _, ref := range fork.Holder(a) {
			holders = append(holders, ref.String())
		}
		if got := strings.Join(holders, " "); got != want {
			t.Errorf("holders %q, want %q", got, want)
		}
	}
}

// Readers see whole claims or nothing while a writer allocates, releases, rebases
// and forks. Run with -race.
func TestLedgerReadersAndWriter(t *testing.T) {
	snapshots := []*Snapshot{simplePool("a", "b", "c"), simplePool("c", "b", "a")}
	l := NewLedger(snapshots[0])
	pair := newClaim("pair", []string{"a", "b"})
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
				usage := l.Usage()
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
		fork := l.Fork()
		if fork.Allocate(pair) != nil || fork.Commit() != nil || l.Release(pair) != nil {
			t.Error("the only writer is refused")
			break
		}
	}
	close(done)
	readers.Wait()
}
