// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
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
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// TestOnlyOnePool: with ReconcilePoolWithName, other pools are not touched, whether
// the API server can select by pool or not.
func TestOnlyOnePool(t *testing.T) {
	for name, old := range map[string]bool{"selecting": false, "filtering": true} {
		t.Run(name, func(t *testing.T) {
			other := &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "00000-other", UID: "u", ResourceVersion: "1"},
				Spec:       resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "other", Generation: 1}},
			}
			s := newServer(other)
			s.PrependReactor("list", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if selector := action.(clienttesting.ListAction).GetListRestrictions().Fields.String(); old && strings.Contains(selector, "spec.pool.name") {
					return true, nil, apierrors.NewBadRequest("no such field")
				}
				return false, nil, nil
			})
			s.PrependWatchReactor("resourceslices", func(action clienttesting.Action) (bool, watch.Interface, error) {
				if selector := action.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String(); old && strings.Contains(selector, "spec.pool.name") {
					return true, nil, apierrors.NewBadRequest("no such field")
				}
				return false, nil, nil
			})
			synctest.Test(t, func(t *testing.T) {
				log := &errorLog{}
				c, err := StartController(t.Context(), Options{
					DriverName: driver, KubeClient: s, Owner: &Owner{APIVersion: "v1", Kind: "Node", Name: node},
					ReconcilePoolWithName: "p", ErrorHandler: log.handle,
					Resources: resources(map[string][]Slice{"p": {devices("a")}}),
				})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Stop()
				after(time.Minute)
				others := []string{"other/1: 00000="}
				if old { // This fake does not select what is watched.
					added := other.DeepCopy()
					added.Name, added.UID, added.Spec.Pool.Name = "00000-added", "v", "added"
					if err := s.Tracker().Add(added); err != nil {
						t.Fatal(err)
					}
					others = slices.Insert(others, 0, "added/1: 00000=")
					after(time.Minute)
				}
				c.Update(resources(map[string][]Slice{"q": {devices("a")}}))
				after(time.Minute)
				if got, want := s.published(t), append(slices.Clone(others), "p/1: 00000=a"); !slices.Equal(got, want) {
					t.Errorf("published %q, want %q", got, want)
				}
				if errs := log.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), `pool "q": the controller publishes only pool "p"`) {
					t.Errorf("errors %v", errs)
				}
				c.Update(nil)
				after(time.Minute)
				if got := s.published(t); !slices.Equal(got, others) {
					t.Errorf("published %q after the pool went, want %q", got, others)
				}
			})
		})
	}
}

func TestStart(t *testing.T) {
	for name, options := range map[string]Options{
		"KubeClient": {DriverName: driver},
		"DriverName": {KubeClient: newServer()},
	} {
		if _, err := StartController(t.Context(), options); err == nil || !strings.Contains(err.Error(), name+" is required") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartController(ctx, Options{DriverName: driver, KubeClient: newServer()}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	var none *Controller
	none.Stop()
}

// TestWithdrawEdited: a slice that somebody edits meanwhile goes, too, and is counted.
func TestWithdrawEdited(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Second)
		conflicts := 0
		s.setRefuse(func(verb string, _ *resourceapi.ResourceSlice) error {
			if verb != "delete" || conflicts > 0 {
				return nil
			}
			conflicts++
			return apierrors.NewConflict(sliceResource, "s", errors.New("edited"))
		})
		if err := c.(ours).Withdraw(t.Context()); err != nil || conflicts != 1 {
			t.Errorf("withdrawn with %v after %d conflicts", err, conflicts)
		}
		if got, deleted := s.published(t), c.(ours).GetStats().NumDeletes; len(got) > 0 || deleted != 1 {
			t.Errorf("published %q, %d deleted", got, deleted)
		}
	})
}

func TestWithdraw(t *testing.T) {
	other := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "00000-left", UID: "u", ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "left", Generation: 1}}}
	s := newServer(other)
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(threeSlices())
		after(time.Second)
		if err := c.(ours).Withdraw(t.Context()); err != nil {
			t.Error(err)
		}
		if got := s.published(t); len(got) > 0 {
			t.Errorf("published %q", got)
		}
		c.Update(threeSlices())
		after(time.Minute)
		if got := s.published(t); len(got) > 0 {
			t.Errorf("published %q after withdrawal", got)
		}
	})
	s = newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(threeSlices())
		after(time.Second)
		s.setRefuse(func(verb string, _ *resourceapi.ResourceSlice) error {
			return apierrors.NewForbidden(sliceResource, "s", errors.New("not yours"))
		})
		if err := c.(ours).Withdraw(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
		c.Stop()
		if got := s.published(t); len(got) != 1 {
			t.Errorf("published %q", got)
		}
	})
}

// TestUpdatePool: other pools stay, and nothing is written for them.
func TestUpdatePool(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(resources(map[string][]Slice{"p": {devices("a")}, "q": {devices("a")}}))
		after(time.Minute)
		s.attempts()
		c.(ours).UpdatePool("p", &Pool{Slices: []Slice{devices("b")}})
		c.(ours).UpdatePool("r", &Pool{Slices: []Slice{devices("c")}})
		c.(ours).UpdatePool("none", nil)
		after(time.Minute)
		if got, want := s.published(t), []string{"p/1: 00000=b", "q/1: 00000=a", "r/1: 00000=c"}; !slices.Equal(got, want) || len(s.attempts()) != 2 {
			t.Errorf("published %q, want %q with 2 writes", got, want)
		}
		c.(ours).UpdatePool("p", nil)
		after(time.Minute)
		if got, want := s.published(t), []string{"q/1: 00000=a", "r/1: 00000=c"}; !slices.Equal(got, want) {
			t.Errorf("published %q, want %q", got, want)
		}
	})
}
