// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// three slices, of which the models of those listed are new.
func threeSlices(changed ...int) *DriverResources {
	var out []Slice
	for i := range 3 {
		model := "old"
		if slices.Contains(changed, i) {
			model = "new"
		}
		out = append(out, sliceWith(device(fmt.Sprintf("gpu-%d", i), model)))
	}
	return pool(out...)
}

// writeCounts is what changes cost: writes that the API server carries out, and
// those it refuses. The table in docs/agent.md has the same rows.
var writeCounts = []struct {
	change string
	// play makes the change to a controller that has published three slices.
	play           func(t *testing.T, s *server, c publisher)
	dray, upstream string
}{
	{"nothing: the same update again", func(_ *testing.T, _ *server, c publisher) {
		c.Update(threeSlices())
		after(time.Minute)
	}, "0", "0"},
	{"one device of one slice", func(_ *testing.T, _ *server, c publisher) {
		c.Update(threeSlices(1))
		after(time.Minute)
	}, "1", "1"},
	{"devices of two of three slices", func(_ *testing.T, _ *server, c publisher) {
		c.Update(threeSlices(0, 1))
		after(time.Minute)
	}, "3", "3"},
	{"the last of three slices goes", func(_ *testing.T, _ *server, c publisher) {
		resources := threeSlices()
		c.Update(pool(resources.Pools[node].Slices[:2]...))
		after(time.Minute)
	}, "3", "3"},
	{"the pool goes", func(_ *testing.T, _ *server, c publisher) {
		c.Update(nil)
		after(time.Minute)
	}, "3", "3"},
	{"a slice is deleted by somebody else", func(t *testing.T, s *server, _ publisher) {
		deleteFirst(t, s)
		after(time.Minute)
	}, "3", "3"},
	{"all three slices, and the second write fails once", func(_ *testing.T, s *server, c publisher) {
		failed := false
		s.setRefuse(func(verb string, _ *resourceapi.ResourceSlice) error {
			if failed || verb != "update" || len(s.tries) != 2 {
				return nil
			}
			failed = true
			return apierrors.NewInternalError(fmt.Errorf("etcd: leader changed"))
		})
		c.Update(threeSlices(0, 1, 2))
		after(time.Minute)
	}, "3 + 1 refused", "6 + 1 refused"},
	{"three more slices, of which the API server refuses the last five times", func(_ *testing.T, s *server, c publisher) {
		refused := 0
		s.setRefuse(func(verb string, slice *resourceapi.ResourceSlice) error {
			if refused == 5 || verb != "create" || !strings.HasPrefix(slice.Name, "00005") {
				return nil
			}
			refused++
			return apierrors.NewInvalid(slice.GroupVersionKind().GroupKind(), slice.Name, nil)
		})
		resources := threeSlices()
		c.Update(pool(slices.Concat(resources.Pools[node].Slices, []Slice{devices("x"), devices("y"), devices("z")})...))
		after(time.Minute)
	}, "6 + 5 refused", "31 + 5 refused"},
	{"1000 changes of one device within a second", func(_ *testing.T, _ *server, c publisher) {
		changeOften(c)
		after(time.Minute)
	}, "5", "1000"},
	{"one device, while another pool of the driver is invalid", func(_ *testing.T, _ *server, c publisher) {
		resources := threeSlices(0)
		resources.Pools["invalid"] = Pool{Slices: []Slice{devices("twice", "twice")}}
		c.Update(resources)
		after(time.Minute)
	}, "1", "0"},
}

// changeOften changes a device a thousand times in a second.
func changeOften(c publisher) {
	for i := range 1000 {
		resources := threeSlices()
		resources.Pools[node].Slices[0].Devices[0] = device("gpu-0", fmt.Sprint(i))
		c.Update(resources)
		after(time.Millisecond)
	}
}

func deleteFirst(t *testing.T, s *server) {
	t.Helper()
	// The tracker is what the client deletes from. Asking it counts no write.
	first := s.slices(t)[0]
	if err := s.Tracker().Delete(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), "", first.Name); err != nil {
		t.Fatal(err)
	}
}

func TestWriteCounts(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range writeCounts {
		for peer, want := range map[string]string{"dray": row.dray, "upstream": row.upstream} {
			t.Run(row.change+"/"+peer, func(t *testing.T) {
				if got := countWrites(t, peer, row.play); got != want {
					t.Errorf("got %s writes, want %s", got, want)
				}
			})
		}
		if line := fmt.Sprintf("| %s | %s | %s |", row.change, row.dray, row.upstream); !strings.Contains(string(text), line) {
			t.Errorf("docs/agent.md has no line\n%s", line)
		}
	}
}

func countWrites(t *testing.T, peer string, change func(t *testing.T, s *server, c publisher)) string {
	var got string
	s := newServer()
	play(t, peer, s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(threeSlices())
		after(2 * time.Minute)
		s.attempts()
		before := c.writes()
		change(t, s, c)
		done := c.writes() - before
		got = fmt.Sprint(done)
		if refused := len(s.attempts()) - done; refused > 0 {
			got += fmt.Sprintf(" + %d refused", refused)
		}
	})
	return got
}

// TestRejectedPool: an error handler that takes long over one pool does not keep
// others from being published.
func TestRejectedPool(t *testing.T) {
	for peer, want := range map[string]int{"dray": 10, "upstream": 0} {
		t.Run(peer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.refuse = func(_ string, slice *resourceapi.ResourceSlice) error {
					if slice.Spec.Pool.Name == "rejected" {
						return apierrors.NewInvalid(slice.GroupVersionKind().GroupKind(), slice.Name, nil)
					}
					return nil
				}
				handled, release := make(chan struct{}), make(chan struct{})
				first := true
				c, err := peers[peer](t.Context(), Options{
					DriverName: driver, KubeClient: s, MutationCacheTTL: ptr.To(24 * time.Hour),
					Resources: resources(map[string][]Slice{"rejected": {devices("a")}}),
					ErrorHandler: func(context.Context, error, string) {
						if first {
							first = false
							close(handled)
							<-release
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				<-handled
				all := map[string][]Slice{"rejected": {devices("a")}}
				for i := range 10 {
					all[fmt.Sprint("pool-", i)] = []Slice{devices("b")}
				}
				c.Update(resources(all))
				after(time.Second)
				if got := len(s.published(t)); got != want {
					t.Errorf("%d pools are published, want %d", got, want)
				}
				close(release)
				after(time.Second)
				if got := len(s.published(t)); got != 10 {
					t.Errorf("%d pools are published when the handler has returned, want 10", got)
				}
				c.Stop()
			})
		})
	}
}

// TestManySlicesSlowWatch: while the watch delivers nothing, none of many slices is
// created twice.
func TestManySlicesSlowWatch(t *testing.T) {
	const many = 150
	for peer, twice := range map[string]bool{"dray": false, "upstream": true} {
		t.Run(peer, func(t *testing.T) {
			s := newServer()
			s.blindWatch()
			play(t, peer, s, func(t *testing.T, c publisher, _ *errorLog) {
				var parts []Slice
				for i := range many {
					parts = append(parts, devices(fmt.Sprintf("gpu-%d", i)))
				}
				c.Update(pool(parts...))
				after(10 * time.Second)
				parts[0] = sliceWith(device("gpu-0", "new"))
				c.Update(pool(parts...))
				after(10 * time.Second)
				if got := len(s.slices(t)); (got > many) != twice || got < many {
					t.Errorf("%d slices exist, of %d", got, many)
				}
			})
		})
	}
}

// TestDeletedUnseen: a slice whose deletion the watch did not deliver is not
// deleted again.
func TestDeletedUnseen(t *testing.T) {
	for peer, again := range map[string]bool{"dray": false, "upstream": true} {
		t.Run(peer, func(t *testing.T) {
			old := &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "00001-old", UID: "old", ResourceVersion: "1"},
				Spec: resourceapi.ResourceSliceSpec{
					Driver: driver, NodeName: new(string),
					Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2},
				},
			}
			*old.Spec.NodeName = node
			s := newServer(old)
			s.blindWatch()
			play(t, peer, s, func(t *testing.T, c publisher, _ *errorLog) {
				c.Update(pool(devices("a")))
				after(10 * time.Second)
				before := countDeletes(s)
				c.Update(pool(devices("b")))
				after(10 * time.Second)
				if got := countDeletes(s) - before; (got > 0) != again {
					t.Errorf("%d deletes of a slice that is gone", got)
				}
			})
		})
	}
}

// TestThrottled: a thousand updates in the second in which the API server answers 429.
func TestThrottled(t *testing.T) {
	for peer, want := range map[string]struct{ least, most int }{"dray": {3, 3}, "upstream": {1000, 2000}} {
		t.Run(peer, func(t *testing.T) {
			s := newServer()
			play(t, peer, s, func(t *testing.T, c publisher, _ *errorLog) {
				c.Update(threeSlices())
				after(time.Minute)
				s.attempts()
				s.setRefuse(func(string, *resourceapi.ResourceSlice) error { return apierrors.NewTooManyRequests("slow down", 0) })
				changeOften(c)
				if got := len(s.attempts()); got < want.least || got > want.most {
					t.Errorf("%d attempts, want %d to %d", got, want.least, want.most)
				}
			})
		})
	}
}

func countDeletes(s *server) int {
	count := 0
	for _, action := range s.Actions() {
		if action.Matches("delete", "resourceslices") {
			count++
		}
	}
	return count
}
