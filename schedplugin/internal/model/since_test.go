// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// recorder is a cluster that tells which claims changed.
type recorder struct {
	*cluster
	changed []types.NamespacedName
}

// moment is when ChangedSince was called.
type moment struct {
	of *recorder
	at int
}

func (r *recorder) ChangedSince(call any) (changed []types.NamespacedName, now any, known bool) {
	now = moment{r, len(r.changed)}
	if last, ok := call.(moment); ok && last.of == r {
		return r.changed[last.at:], now, true
	}
	return nil, now, false
}

// set stores a claim, or deletes it if the device is "".
func (r *recorder) set(name string, uid types.UID, device string) {
	r.changed = append(r.changed, types.NamespacedName{Namespace: "default", Name: name})
	if device == "" {
		delete(r.claims, name)
		return
	}
	r.put(name, uid, device)
}

// twins is a simulator with two states of a cluster. One of them is the present one.
type twins struct {
	*cluster
	now *recorder
}

func (t *twins) ResourceClaims() fwk.ResourceClaimTracker { return t.now }

// TestObserveSince changes two states of a cluster, and goes back and forth between them. Now and then a state lists a claim that is
// in flight, too, which is an error. What is in use is compared with the claims of the present state.
func TestObserveSince(t *testing.T) {
	var failed int
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		states := []*recorder{{cluster: newCluster()}, {cluster: newCluster()}}
		simulator := &twins{cluster: states[0].cluster, now: states[0]}
		m := New(simulator, pools.Gates{})
		for step := range 40 {
			now := states[rng.IntN(len(states))]
			simulator.now = now
			for range rng.IntN(3) {
				device := strconv.Itoa(rng.IntN(devices))
				if name := "claim-" + device; rng.IntN(3) == 0 {
					now.set(name, types.UID(name), "")
				} else {
					now.set(name, types.UID(name), device)
				}
			}
			if rng.IntN(6) == 0 {
				now.set("flying", "flying", "0")
				claim := now.claims["flying"]
				now.pending[claim.UID] = claim.Status.Allocation
				m.Pending(claim)
				if _, err := m.Observe(); err == nil {
					t.Fatalf("seed %d, step %d: no error", seed, step)
				}
				failed++
				delete(now.pending, claim.UID)
				continue
			}
			if got, want := inUse(t, m), now.expected(); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: %v in use, want %v", seed, step, got, want)
			}
		}
	}
	if failed == 0 {
		t.Error("no observation failed")
	}
}
