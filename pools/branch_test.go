// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"fmt"
	"runtime"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
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

// The cost of a branch does not depend on how much is in use. The cost of changes depends only on their
// number.
func TestBranchCostsWhatChanges(t *testing.T) {
	for _, shares := range []int{10, 1000, 20_000} {
		list := []*resourceapi.ResourceSlice{given.Slice("s", "network", given.Everywhere)}
		for i := range 100 {
			given.Device(fmt.Sprintf("nic-%d", i), given.Multiple, given.Capacity("bandwidth", "1000G"))(list[0])
		}
		l := NewLedger(Build(everything, list))
		for n := range shares {
			claim := given.Claim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("nic-%d", n%100)}, given.InPool("network"), given.Share(fmt.Sprint("share-", n), "1G"))
			if err := l.Assume(claim); err != nil {
				t.Fatal(err)
			}
		}
		if got := bytesOf(func() { l.Branch() }); got > 64 {
			t.Errorf("%d shares in use: a branch takes %d bytes", shares, got)
		}
		claim := given.Claim("new", []string{"nic-0"}, given.InPool("network"), given.Share("new", "1G"))
		if got := bytesOf(func() {
			branch := l.Branch()
			if err := branch.Assume(claim); err != nil {
				t.Fatal(err)
			}
			branch.Revert()
		}); got > 16<<10 {
			t.Errorf("%d shares in use: a branch with one more takes %d bytes", shares, got)
		}
	}
}
