package pools

import (
	"fmt"
	"runtime"
	"testing"
)

// bytesOf is what a call allocates, on average.
func bytesOf(call func()) uint64 {
	const calls = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		call()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / calls
}

// What a fork costs does not depend on how much is in use, and what is done to it only on
// how much that is.
func TestForkCostsWhatChanges(t *testing.T) {
	for _, shares := range []int{10, 1000, 20_000} {
		list := objects{newSlice("s", "network", everywhere)}
		for i := range 100 {
			device(fmt.Sprintf("nic-%d", i), multiple, capacity("bandwidth", "1000G"))(list[0])
		}
		l := NewLedger(Build(allGates, list))
		for n := range shares {
			claim := newClaim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("nic-%d", n%100)}, inPool("network"), share(fmt.Sprint("share-", n), "1G"))
			if err := l.Allocate(claim); err != nil {
				t.Fatal(err)
			}
		}
		if got := bytesOf(func() { l.Fork() }); got > 64 {
			t.Errorf("%d shares in use: a fork takes %d bytes", shares, got)
		}
		claim := newClaim("new", []string{"nic-0"}, inPool("network"), share("new", "1G"))
		if got := bytesOf(func() {
			fork := l.Fork()
			if err := fork.Allocate(claim); err != nil {
				t.Fatal(err)
			}
			fork.Revert()
		}); got > 16<<10 {
			t.Errorf("%d shares in use: a fork with one more takes %d bytes", shares, got)
		}
	}
}
