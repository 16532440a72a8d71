// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// Slices reports whether each device belongs to one node, and which generations of pools there are. It is
// called under the locks of the scheduling queue, for each pod that enters it. It is safe for concurrent use.
type Slices struct {
	// Lister is used if there is no store.
	Lister fwk.ResourceSliceLister
	// store is the informer's store with the indexes below. Nil without one.
	store cache.Indexer
	// synced reports whether the store has all slices.
	synced func() bool
}

// NewSlices uses the scheduler's informer of slices if stored is set. Otherwise the manager's list is read each time.
func NewSlices(handle fwk.Handle, stored bool) (*Slices, error) {
	l := &Slices{Lister: handle.SharedDRAManager().ResourceSlices()}
	if !stored {
		return l, nil
	}
	informer := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer()
	// Another profile may have added the indexes.
	if _, added := informer.GetIndexer().GetIndexers()[byPool]; !added {
		if err := informer.AddIndexers(indexers); err != nil {
			return nil, fmt.Errorf("index resource slices: %w", err)
		}
	}
	l.store, l.synced = informer.GetIndexer(), informer.HasSynced
	return l, nil
}

const (
	// byPool finds the slices of a pool.
	byPool = "dray-pool"
	// byReach has under one key all slices with devices that several nodes may reach.
	byReach = "dray-reach"
)

var indexers = cache.Indexers{
	byPool: func(object any) ([]string, error) {
		slice, ok := object.(*resourceapi.ResourceSlice)
		if !ok {
			return nil, nil
		}
		return []string{poolOf(slice)}, nil
	},
	byReach: func(object any) ([]string, error) {
		if slice, ok := object.(*resourceapi.ResourceSlice); !ok || ofOneNode(slice) {
			return nil, nil
		}
		return []string{"shared"}, nil
	},
}

// poolOf is the key of a pool. Driver names contain no slash.
func poolOf(slice *resourceapi.ResourceSlice) string {
	return slice.Spec.Driver + "/" + slice.Spec.Pool.Name
}

// HasOlderGeneration reports whether there may be slices of the same pool with a lower generation. Their
// devices count once no slice has a higher one.
func (l *Slices) HasOlderGeneration(slice *resourceapi.ResourceSlice) bool {
	if !l.Synced() {
		return true
	}
	others, err := l.store.ByIndex(byPool, poolOf(slice))
	return err != nil || slices.ContainsFunc(others, func(other any) bool {
		return other.(*resourceapi.ResourceSlice).Spec.Pool.Generation < slice.Spec.Pool.Generation
	})
}

func ofOneNode(slice *resourceapi.ResourceSlice) bool {
	return ptr.Deref(slice.Spec.NodeName, "") != "" || len(slice.Spec.Devices) == 0
}

// Synced reports whether the store has all slices.
func (l *Slices) Synced() bool { return l.store != nil && l.synced() }

// NodeLocal reports whether each device belongs to one node.
func (l *Slices) NodeLocal() bool {
	if l.Synced() {
		return len(l.store.ListIndexFuncValues(byReach)) == 0
	}
	all, err := l.Lister.ListWithDeviceTaintRules()
	return err == nil && !slices.ContainsFunc(all, func(slice *resourceapi.ResourceSlice) bool { return !ofOneNode(slice) })
}
