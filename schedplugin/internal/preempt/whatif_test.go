// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// share has pods use the claims of others, too.
func (w *world) share() {
	for range w.rand.IntN(4) {
		if len(w.pods) < 2 || len(w.claims) == 0 {
			return
		}
		at, user := w.rand.IntN(len(w.claims)), w.rand.IntN(len(w.pods))
		claim, pod := w.claims[at].DeepCopy(), w.pods[user].DeepCopy()
		if slices.ContainsFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.UID == pod.UID }) {
			continue
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod.Name))
		claim.ResourceVersion += "-shared"
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, podOf("", claim.Name).Spec.ResourceClaims...)
		w.claims[at], w.pods[user] = claim, pod
	}
}

// scratch is what is in use if pods are gone, made anew: a claim comes free once all its consumers
// are gone, unless the pod that is being scheduled has it.
func (w *world) scratch(view *model.View, own, gone sets.Set[types.UID], abandoned bool, aside []*resourceapi.ResourceClaim) *pools.State {
	w.t.Helper()
	ledger := pools.NewLedger(view.State.Snapshot())
	for _, claim := range w.claims {
		free := !slices.ContainsFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return !gone.Has(c.UID) })
		if nobody, _ := w.abandoned(claim); abandoned && nobody {
			free = true
		}
		if free && !own.Has(claim.UID) {
			continue
		}
		if err := ledger.Assume(claim); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, claim := range aside {
		if err := ledger.Assume(claim); err != nil {
			w.t.Fatal(err)
		}
	}
	return ledger.State()
}

// same reports whether the same devices of all nodes are in use.
func (w *world) same(a, b *pools.State) bool {
	for _, node := range w.nodes {
		gathered, err := a.Snapshot().GatherPools(node)
		if err != nil {
			w.t.Fatal(err)
		}
		for reached := range gathered.Pools() {
			for device := range reached.Pool().Devices() {
				if a.Pool(reached.Pool()).InUse(device) != b.Pool(reached.Pool()).InUse(device) {
					return false
				}
			}
		}
	}
	return true
}

// supposed is a case, and what happened to it.
type supposed struct {
	*whatIf
	gone  sets.Set[types.UID]
	waits bool
}

// change removes a pod or restores it, or has the pod of the cycle wait for what comes free.
func (s *supposed) change(w *world, settled *pools.Ledger, own sets.Set[types.UID]) {
	w.t.Helper()
	pod := w.pods[w.rand.IntN(len(w.pods))]
	var err error
	switch {
	case w.rand.IntN(12) == 0:
		s.waits = true
		err = s.UseSettled(settled)
	case s.gone.Has(pod.UID):
		s.gone.Delete(pod.UID)
		err = s.Restore(pod, w.claimsOf(pod))
	default:
		s.gone.Insert(pod.UID)
		s.Remove(pod, w.claimsOf(pod), own)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestWhatIf removes pods and restores them at random, as preemption does, on clones, with and without
// devices that were set aside before. Each time the state is that from scratch.
func TestWhatIf(t *testing.T) {
	compared := 0
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range 20 {
			w.change()
		}
		w.share()
		own := sets.New[types.UID]()
		if len(w.claims) > 0 && w.rand.IntN(3) == 0 {
			own.Insert(w.claims[w.rand.IntN(len(w.claims))].UID)
		}
		view, err := model.New(w, pools.Gates{}).Observe()
		if err != nil {
			t.Fatal(err)
		}
		settled, err := view.Without("settled", w.abandoned, w.own(own))
		if err != nil {
			t.Fatal(err)
		}
		first := &whatIf{}
		if node := w.nodes[0]; w.rand.IntN(2) == 0 {
			open := &resourceapi.ResourceClaim{}
			open.Name, open.UID = "open", "open"
			at := &target{View: view, Settled: settled, Node: w.withPods(node), Own: own, ClaimsOf: w.claimsOf, Allocate: w.firstFree(node)}
			if err := new(asideCache).SetAside(first, at, "nominated", []*resourceapi.ResourceClaim{open}); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Begin(view); err != nil {
			t.Fatal(err)
		}
		copies := []*supposed{{whatIf: first, gone: sets.New[types.UID]()}}
		for range 12 {
			if len(w.pods) == 0 {
				break
			}
			one := copies[w.rand.IntN(len(copies))]
			if w.rand.IntN(3) == 0 {
				one = &supposed{one.Clone(), one.gone.Clone(), one.waits}
				copies = append(copies, one)
			}
			one.change(w, settled, own)
			for _, each := range copies {
				if want := w.scratch(view, own, each.gone, each.waits, each.SetAsideClaims()); !w.same(each.Usage(), want) {
					t.Fatalf("seed %d: without %v, the state is not that from scratch", seed, each.gone.UnsortedList())
				}
				compared++
			}
		}
	}
	if compared < 2000 {
		t.Errorf("only %d states were compared", compared)
	}
}
