// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestRepair: slices that somebody deleted or edited are as before half a minute later.
func TestRepair(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, s *server){
		"deleted": deleteFirst,
		"edited": func(t *testing.T, s *server) {
			slice := s.slices(t)[0]
			slice.Spec.Devices = nil
			slice.ResourceVersion = "1000"
			if err := s.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), &slice, ""); err != nil {
				t.Fatal(err)
			}
		},
		"added": func(t *testing.T, s *server) {
			slice := s.slices(t)[0]
			slice.Name, slice.UID, slice.ResourceVersion = "00009-by-hand", "by-hand", "1000"
			if err := s.Tracker().Add(&slice); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
				c.Update(threeSlices())
				after(2 * time.Minute)
				before := strings.Join(s.published(t), "")
				damage(t, s)
				after(DefaultSyncDelay - time.Second)
				damaged := strings.Join(s.published(t), "")
				after(2 * time.Second)
				repaired := strings.Join(s.published(t), "")
				_, before, _ = strings.Cut(before, ":")
				if _, repaired, _ := strings.Cut(repaired, ":"); repaired != before || strings.HasSuffix(damaged, before) {
					t.Errorf("before %q, damaged %q, repaired %q", before, damaged, repaired)
				}
				if errs := log.all(); len(errs) > 0 {
					t.Errorf("errors %v", errs)
				}
			})
		})
	}
}

// TestLeftovers: slices of an earlier run that are not desired are deleted, those of
// a lower generation and with other names too.
func TestLeftovers(t *testing.T) {
	leftover := func(name, pool string, generation int64) runtime.Object {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "1"},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: ptr.To(node), Devices: devices("a").Devices,
				Pool: resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: 1},
			},
		}
	}
	s := newServer(leftover("00000-now", node, 5), leftover("00000-old", node, 4), leftover("random", node, 5), leftover("00000-gone", "gone", 1))
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Minute)
		if got := s.published(t); !slices.Equal(got, []string{"node-1/5: 00000=a"}) {
			t.Errorf("published %q", got)
		}
		for _, action := range s.Actions() {
			if deleted, ok := action.(clienttesting.DeleteActionImpl); ok {
				preconditions := deleted.GetDeleteOptions().Preconditions
				if preconditions == nil || *preconditions.UID != "u" || *preconditions.ResourceVersion != "1" {
					t.Errorf("delete of %s with preconditions %v", deleted.Name, preconditions)
				}
			}
		}
	})
}

// TestErrors: the handler is told; errors of the API server are retried, and errors of
// the driver are not.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err      error // of the first five writes
		update   *DriverResources
		errors   int
		contains string
		want     []string
	}{
		"conflict":    {apierrors.NewConflict(sliceResource, "s", errors.New("changed")), pool(devices("a")), 5, `pool "node-1": slice 0: create ResourceSlice: `, []string{"node-1/1: 00000=a"}},
		"invalid":     {apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice").GroupKind(), "s", nil), pool(devices("a")), 5, "is invalid", []string{"node-1/1: 00000=a"}},
		"throttled":   {apierrors.NewTooManyRequests("slow down", 1), pool(devices("a")), 5, "slow down", []string{"node-1/1: 00000=a"}},
		"internal":    {apierrors.NewInternalError(errors.New("boom")), pool(devices("a")), 5, "boom", []string{"node-1/1: 00000=a"}},
		"connection":  {errors.New("connection refused"), pool(devices("a")), 5, "connection refused", []string{"node-1/1: 00000=a"}},
		"device":      {nil, pool(devices("a"), devices("a")), 1, `pool "node-1": slice 1: device "a": another device`, nil},
		"counter set": {nil, pool(Slice{SharedCounters: []resourceapi.CounterSet{{Name: "c"}, {Name: "c"}}}), 1, `counter set "c": another counter set`, nil},
		"no counter set": {nil, pool(sliceWith(resourceapi.Device{Name: "a", ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "c"}}})), 1,
			`device "a": counter set "c": not in the pool`, nil},
		"no counter": {nil, pool(
			Slice{SharedCounters: []resourceapi.CounterSet{{Name: "c"}}},
			sliceWith(resourceapi.Device{Name: "a", ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "c", Counters: map[string]resourceapi.Counter{"m": {}}}}}),
		), 1, `device "a": counter set "c": it has no counter "m"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			failures := 0
			s.refuse = func(string, *resourceapi.ResourceSlice) error {
				failures++
				if failures > 5 {
					return nil
				}
				return test.err
			}
			play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
				c.Update(test.update)
				after(10 * time.Minute)
				errs := log.all()
				if len(errs) != test.errors || !strings.Contains(errs[0].Error(), test.contains) {
					t.Errorf("errors %v, want %d with %q", errs, test.errors, test.contains)
				}
				if got := s.published(t); !slices.Equal(got, test.want) {
					t.Errorf("published %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestEditedWhileUnfinished: a write that failed midway is not resumed if somebody edited what it has written. Nobody may
// see two contents of one generation.
func TestEditedWhileUnfinished(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(threeSlices())
		after(2 * time.Minute)
		s.setRefuse(func(verb string, slice *resourceapi.ResourceSlice) error {
			if verb == "update" && strings.HasPrefix(slice.Name, "00001") {
				return apierrors.NewInternalError(errors.New("etcd: leader changed"))
			}
			return nil
		})
		c.Update(threeSlices(0, 1, 2))
		after(time.Second)
		written := s.slices(t)[0]
		if written.Spec.Pool.Generation != 2 {
			t.Fatalf("the first slice is of generation %d", written.Spec.Pool.Generation)
		}
		written.Spec.Devices, written.ResourceVersion = nil, "1000"
		if err := s.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), &written, ""); err != nil {
			t.Fatal(err)
		}
		s.setRefuse(nil)
		after(10 * time.Minute)
		if got, want := s.published(t), []string{node + "/3: 00000=gpu-0 00001=gpu-1 00002=gpu-2"}; !slices.Equal(got, want) {
			t.Errorf("published %q, want %q", got, want)
		}
	})
}

// TestCreatedUnseen: a slice that was deleted before the watch saw it is created
// again when the answer to its create has expired.
func TestCreatedUnseen(t *testing.T) {
	s := newServer()
	s.blindWatch()
	synctest.Test(t, func(t *testing.T) {
		c, err := StartController(t.Context(), Options{DriverName: driver, KubeClient: s, Resources: pool(devices("a"))})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		after(time.Second)
		deleteFirst(t, s)
		after(DefaultMutationCacheTTL - 2*time.Second)
		if got := s.published(t); len(got) != 0 {
			t.Errorf("published %q before the answer expired", got)
		}
		after(2 * time.Second)
		if got := s.published(t); len(got) != 1 {
			t.Errorf("published %q after the answer expired", got)
		}
	})
}

// TestUpdatedUnseen: the same for a slice that was deleted after it was updated. With the libraries of
// Kubernetes 1.36, it is so where the watch does deliver the deletion, too.
func TestUpdatedUnseen(t *testing.T) {
	s := newServer()
	synctest.Test(t, func(t *testing.T) {
		first, err := StartController(t.Context(), Options{DriverName: driver, KubeClient: s, Resources: pool(devices("a"))})
		if err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		first.Stop()
		s.blindWatch()
		log := &errorLog{}
		c, err := StartController(t.Context(), Options{DriverName: driver, KubeClient: s, Resources: pool(devices("b")), ErrorHandler: log.handle})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		after(time.Second)
		if got := s.attempts(); !slices.Equal(got, []string{"create 00000", "update 00000"}) {
			t.Errorf("writes %q", got)
		}
		deleteFirst(t, s)
		after(DefaultMutationCacheTTL + time.Second)
		if got, want := s.published(t), []string{node + "/1: 00000=b"}; !slices.Equal(got, want) {
			t.Errorf("published %q after the answer expired, want %q", got, want)
		}
	})
}
