// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// poolWriter publishes a pool, and notes what readers see after each write. Some of its writes fail.
type poolWriter struct {
	*Fleet
	client *fake.Clientset
	writes int
	fail   int // the number of the write that fails, or 0
	seen   []map[string]string
}

func newPoolWriter(t *testing.T) *poolWriter {
	w := &poolWriter{client: fakecluster.NewVersioned()}
	w.Fleet = &Fleet{options: Options{Client: w.client}}
	w.client.PrependReactor("*", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains([]string{"list", "get", "watch"}, action.GetVerb()) {
			return false, nil, nil
		}
		if w.writes > 0 {
			w.see(t)
		}
		if w.writes++; w.writes == w.fail {
			return true, nil, errors.New("no more")
		}
		return false, nil, nil
	})
	return w
}

// stored lists the slices of the pool.
func (w *poolWriter) stored(t *testing.T) (list []*resourceapi.ResourceSlice) {
	t.Helper()
	found, err := w.client.Tracker().List(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, slice := range found.(*resourceapi.ResourceSliceList).Items {
		list = append(list, slice.DeepCopy())
	}
	return list
}

// see notes the pool as a reader has it: the slices of the latest generation, if there are as many as one of them says. Readers take the number
// from any of them.
func (w *poolWriter) see(t *testing.T) {
	latest := int64(-1)
	for _, slice := range w.stored(t) {
		latest = max(latest, slice.Spec.Pool.Generation)
	}
	whole, counts := make(map[string]string), make(map[int64]bool)
	for _, slice := range w.stored(t) {
		if slice.Spec.Pool.Generation == latest {
			whole[slice.Name] = namesOf(slice)
			counts[slice.Spec.Pool.ResourceSliceCount] = true
		}
	}
	if counts[int64(len(whole))] {
		w.seen = append(w.seen, whole)
	}
}

func namesOf(slice *resourceapi.ResourceSlice) (names string) {
	for _, device := range slice.Spec.Devices {
		names += device.Name + " "
	}
	return names
}

// poolOf draws a pool of up to three slices, which differ from others in few devices.
func poolOf(random *rand.Rand) (list []*resourceapi.ResourceSlice) {
	count := random.IntN(4)
	for i := range count {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: int64(count)}}
		for n := range 1 + random.IntN(2) {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d-%d", i, n)})
		}
		list = append(list, slice)
	}
	return list
}

func devicesByName(list []*resourceapi.ResourceSlice) map[string]string {
	out := make(map[string]string)
	for _, slice := range list {
		out[slice.Name] = namesOf(slice)
	}
	return out
}

// TestPublishPool: whoever reads a pool between two writes sees it as it was, as it will be, or that it is not complete. That holds after a
// write that failed, too. A pool in which one slice changes is changed by one write, and one that stays as it is by none.
func TestPublishPool(t *testing.T) {
	failed, single := 0, 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newPoolWriter(t)
		before := poolOf(random)
		if err := w.publishPool(t.Context(), nil, before); err != nil {
			t.Fatal(err)
		}
		known := []map[string]string{devicesByName(before)}
		for range 4 {
			want := poolOf(random)
			stored := w.stored(t)
			complete := maps.Equal(devicesByName(stored), known[len(known)-1]) && !slices.ContainsFunc(stored, func(s *resourceapi.ResourceSlice) bool {
				return s.Spec.Pool.Generation != stored[0].Spec.Pool.Generation
			})
			known = append(known, devicesByName(want))
			w.writes, w.fail, w.seen = 0, random.IntN(4), nil
			err := w.publishPool(t.Context(), stored, want)
			w.see(t)
			for _, pool := range w.seen {
				if !slices.ContainsFunc(known, func(k map[string]string) bool { return maps.Equal(k, pool) }) {
					t.Errorf("seed %d: a reader sees %v, which is none of %v", seed, pool, known)
				}
			}
			if err != nil {
				failed++
				continue
			}
			if got := devicesByName(w.stored(t)); !maps.Equal(got, devicesByName(want)) {
				t.Errorf("seed %d: stored are %v, want %v", seed, got, devicesByName(want))
			}
			if changed := changes(stored, want); complete && len(stored) == len(want) && changed < 2 {
				if single++; w.writes != changed {
					t.Errorf("seed %d: %d writes for %d slices that changed", seed, w.writes, changed)
				}
			}
		}
	}
	if failed == 0 || single == 0 {
		t.Errorf("%d failed, %d changed one slice", failed, single)
	}
}

// changes counts the slices whose devices change.
func changes(stored, want []*resourceapi.ResourceSlice) (n int) {
	before := devicesByName(stored)
	for name, devices := range devicesByName(want) {
		if before[name] != devices {
			n++
		}
	}
	return n
}
