package cluster

import (
	"testing"

	"github.com/dray-project/dray/internal/index/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// What is in use of the pools of a snapshot is found out when the state comes to it, and not kept
// longer than they are there.
func TestRebaseComputesAhead(t *testing.T) {
	b := NewBuilder(everything)
	b.Set(given.Slice("s1", "p", given.Everywhere, given.Devices("a")))
	u, err := NewState(b.Snapshot()).Assume(given.Claim("c", []string{"a"}))
	if err != nil {
		t.Fatal(err)
	}
	b.Set(given.Slice("s1", "p", given.Everywhere, given.Devices("b", "a")), given.Slice("s2", "q", given.Everywhere, given.Devices("x")))
	s := b.Snapshot()
	u = u.Rebase(s)
	for _, p := range s.Pools() {
		if known := u.pools.Get(p.Slot); known == nil || known.Pool() != p {
			t.Errorf("the usage of %s was not computed ahead", p.ID)
		}
	}
	if p := s.Pool(pool.ID{Driver: given.Driver, Name: "p"}); u.Pool(p).InUse(0) || !u.Pool(p).InUse(1) {
		t.Error("the claim does not hold the device at its new position, or another one")
	}
	slot := s.Pool(pool.ID{Driver: given.Driver, Name: "q"}).Slot
	b.Delete("s2")
	if u = u.Rebase(b.Snapshot()); u.pools.Get(slot) != nil {
		t.Error("the usage of a pool that is gone is kept")
	}
}

// Nothing is in use in a nil State.
func TestNilState(t *testing.T) {
	p := Build(everything, given.PartitionedPool()).Pools()[0]
	var none *State
	if none.Pool(p) != p.Idle() {
		t.Error("a nil State has something in use")
	}
}
