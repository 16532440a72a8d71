// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/utils/ptr"
)

// published are slices as an informer would list them.
type published map[string]*resourceapi.ResourceSlice

func (p published) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	var list []*resourceapi.ResourceSlice
	for _, slice := range p {
		list = append(list, slice)
	}
	return list, nil
}

// outdates is Slices.Outdates by looking at all slices.
func (p published) outdates(slice *resourceapi.ResourceSlice) bool {
	for _, other := range p {
		if other.Spec.Driver == slice.Spec.Driver && other.Spec.Pool.Name == slice.Spec.Pool.Name && other.Spec.Pool.Generation < slice.Spec.Pool.Generation {
			return true
		}
	}
	return false
}

func anySlice(random *rand.Rand) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", random.IntN(6))}}
	slice.Spec.Driver = fmt.Sprint("driver-", random.IntN(2))
	slice.Spec.Pool = resourceapi.ResourcePool{Name: fmt.Sprint("pool-", random.IntN(2)), Generation: random.Int64N(4)}
	if random.IntN(8) > 0 {
		slice.Spec.Devices = []resourceapi.Device{{Name: "device"}}
	}
	switch random.IntN(12) {
	case 0:
		slice.Spec.AllNodes = ptr.To(true)
	case 1:
		slice.Spec.NodeSelector = &corev1.NodeSelector{}
	case 2:
		slice.Spec.PerDeviceNodeSelection = ptr.To(true)
	default:
		slice.Spec.NodeName = ptr.To("node")
	}
	return slice
}

// TestSlices makes random changes, and compares with a look at all slices there are. Without a store
// the slices are listed.
func TestSlices(t *testing.T) {
	var local, outdated, asked int
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		there := published{}
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
		follows := &Slices{Lister: unlisted{}, store: store, synced: always}
		lists := &Slices{Lister: there}
		for step := range 40 {
			slice := anySlice(random)
			before := there[slice.Name]
			if before == nil || random.IntN(3) > 0 {
				there[slice.Name] = slice
				must(t, store.Update(slice))
			} else {
				delete(there, slice.Name)
				must(t, store.Delete(before))
			}
			gone := anySlice(random)
			asked++
			if want := there.outdates(gone); follows.HasOlderGeneration(gone) != want {
				t.Fatalf("seed %d, step %d: a slice outdates others: %v, want %v", seed, step, !want, want)
			} else if want {
				outdated++
			}
			if !lists.HasOlderGeneration(gone) {
				t.Fatalf("seed %d, step %d: without a store it is known that no slice is older", seed, step)
			}
			if want := lists.NodeLocal(); follows.NodeLocal() != want {
				t.Fatalf("seed %d, step %d: each device belongs to one node: %v, want %v", seed, step, !want, want)
			} else if want {
				local++
			}
		}
	}
	if local == 0 || local == asked || outdated == 0 || outdated == asked {
		t.Errorf("of %d questions, %d times all devices are local and %d times a slice outdates others: the test shows little", asked, local, outdated)
	}
}

func always() bool { return true }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scheduler is a handle with the scheduler's own manager.
type scheduler struct{ handle }

func (scheduler) SharedDRAManager() fwk.SharedDRAManager {
	return &dynamicresources.DefaultDRAManager{}
}

// TestSlicesOfStore: what the informer has counts, though no handler was told of it yet. All profiles of
// a scheduler look into the same store.
func TestSlicesOfStore(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	store := factory.Resource().V1().ResourceSlices().Informer().GetStore()
	slice := func(generation int64) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", generation)}}
		s.Spec.Driver, s.Spec.Pool = "driver", resourceapi.ResourcePool{Name: "pool", Generation: generation}
		s.Spec.AllNodes, s.Spec.Devices = ptr.To(true), []resourceapi.Device{{Name: "device"}}
		return s
	}
	older, newer := slice(1), slice(2)
	for range 2 {
		l, err := NewSlices(scheduler{handle{factory: factory}}, true)
		must(t, err)
		if l.Synced() || !l.HasOlderGeneration(newer) {
			t.Fatal("the store is believed before it has all slices")
		}
		l.synced = always
		if !l.NodeLocal() || l.HasOlderGeneration(newer) {
			t.Error("there is a slice in a store without any")
		}
		must(t, store.Add(older))
		if l.NodeLocal() || !l.HasOlderGeneration(newer) {
			t.Error("a slice in the store is not known")
		}
		must(t, store.Delete(older))
	}
}

// TestNodeLocal is the reference of TestSlices, slice by slice.
func TestNodeLocal(t *testing.T) {
	device := []resourceapi.Device{{Name: "device"}}
	for name, test := range map[string]struct {
		spec resourceapi.ResourceSliceSpec
		want bool
	}{
		"none":            {resourceapi.ResourceSliceSpec{}, true},
		"of a node":       {resourceapi.ResourceSliceSpec{NodeName: ptr.To("node"), Devices: device}, true},
		"of all nodes":    {resourceapi.ResourceSliceSpec{AllNodes: ptr.To(true), Devices: device}, false},
		"by label":        {resourceapi.ResourceSliceSpec{NodeSelector: &corev1.NodeSelector{}, Devices: device}, false},
		"by device":       {resourceapi.ResourceSliceSpec{PerDeviceNodeSelection: ptr.To(true), Devices: device}, false},
		"without devices": {resourceapi.ResourceSliceSpec{AllNodes: ptr.To(true)}, true},
	} {
		if got := (&Slices{Lister: published{"slice": {Spec: test.spec}}}).NodeLocal(); got != test.want {
			t.Errorf("slice %s: %v, want %v", name, got, test.want)
		}
	}
	if (&Slices{Lister: unlisted{}}).NodeLocal() {
		t.Error("all devices are said to be local, though slices cannot be listed")
	}
}

type unlisted struct{ fwk.ResourceSliceLister }

func (unlisted) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return nil, fmt.Errorf("no list")
}
