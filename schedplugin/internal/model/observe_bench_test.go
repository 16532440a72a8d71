// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// BenchmarkObserve is looking at a manager that does not tell what changes, which is nothing,
// in an order that stays the same or does not.
func BenchmarkObserve(b *testing.B) {
	for _, shuffled := range []bool{false, true} {
		b.Run(fmt.Sprintf("claims=40000/shuffled=%v", shuffled), func(b *testing.B) {
			c := newCluster()
			var list []*resourceapi.ResourceClaim
			for i := range 40_000 {
				list = append(list, c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), strconv.Itoa(i%devices)))
			}
			m := New(inOrder{c, &list}, pools.Gates{})
			if _, err := m.Observe(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if shuffled {
					b.StopTimer()
					rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
					b.StartTimer()
				}
				if _, err := m.Observe(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkObserveCopies is looking at a manager that has copies of all claims, as that of a simulator which starts
// anew.
func BenchmarkObserveCopies(b *testing.B) {
	c := newCluster()
	list := make([]*resourceapi.ResourceClaim, 7000)
	for i := range list {
		list[i] = c.put(fmt.Sprint("claim-", i), types.UID(strconv.Itoa(i)), strconv.Itoa(i%devices))
	}
	m := New(inOrder{c, &list}, pools.Gates{})
	for b.Loop() {
		b.StopTimer()
		for i := range list {
			list[i] = list[i].DeepCopy()
		}
		b.StartTimer()
		if _, err := m.Observe(); err != nil {
			b.Fatal(err)
		}
	}
}

// inOrder lists claims in a certain order.
type inOrder struct {
	*cluster
	list *[]*resourceapi.ResourceClaim
}

func (o inOrder) ResourceClaims() fwk.ResourceClaimTracker    { return o }
func (o inOrder) List() ([]*resourceapi.ResourceClaim, error) { return *o.list, nil }

func firstPool(view *View) pools.Pool {
	for pool := range view.State.Snapshot().Pools() {
		return pool
	}
	return pools.Pool{}
}
