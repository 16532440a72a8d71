// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// sliceOf is a ResourceSlice of a driver, on a node if that is not empty.
func sliceOf(driver, node string) *resourceapi.ResourceSlice {
	out := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-on-" + node, UID: types.UID(driver + node)}}
	out.Spec.Driver = driver
	if node != "" {
		out.Spec.NodeName = ptr.To(node)
	}
	return out
}

// TestStaleSlices: the slices of a node are deleted when their driver was not reachable for 30 seconds, and no others.
func TestStaleSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			sliceOf("stays", "n"), sliceOf("leaves", "n"), sliceOf("never", "n"), sliceOf("never", "other"), sliceOf("never", ""))
		failures := 0
		client.PrependReactor("delete", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures++
			return failures == 1, nil, apierrors.NewTooManyRequests("later", 1)
		})
		p := &plugins{lost: make(chan struct{}, 1)}
		p.recordAbsences()
		stays, leaves := &plugin{driver: "stays", connected: true}, &plugin{driver: "leaves", connected: true}
		p.known = []*plugin{stays, leaves}
		set := func(which *plugin, connected bool) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			which.connected = connected
			p.noteAbsence(which.driver)
		}
		preparer := &Preparer{client: draclient.New(client), plugins: p}
		began := time.Now()
		go preparer.deleteStaleSlices(t.Context(), "n")
		expectAt := func(seconds int, want ...string) {
			t.Helper()
			time.Sleep(time.Until(began.Add(time.Duration(seconds) * time.Second)))
			synctest.Wait()
			list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, slice := range list.Items {
				got = append(got, slice.Name)
			}
			slices.Sort(got)
			same(t, fmt.Sprintf("after %d s", seconds), got, want...)
		}
		others := []string{"never-on-", "never-on-other"}
		all := []string{"leaves-on-n", "never-on-", "never-on-n", "never-on-other", "stays-on-n"}
		expectAt(29, all...)
		expectAt(31, all...) // the API server refused
		expectAt(39, all...)
		expectAt(41, "leaves-on-n", "never-on-", "never-on-other", "stays-on-n")
		set(leaves, false)
		expectAt(60, "leaves-on-n", "never-on-", "never-on-other", "stays-on-n")
		set(stays, false)
		expectAt(70, "leaves-on-n", "never-on-", "never-on-other", "stays-on-n")
		expectAt(72, "never-on-", "never-on-other", "stays-on-n")
		set(stays, true)
		expectAt(100, "never-on-", "never-on-other", "stays-on-n")
		set(stays, false)
		expectAt(129, "never-on-", "never-on-other", "stays-on-n")
		expectAt(131, others...)

		// A driver that publishes before it registers again is not looked at.
		if _, err := client.ResourceV1().ResourceSlices().Create(t.Context(), sliceOf("never", "n"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		set(leaves, true)
		set(leaves, false)
		expectAt(200, append([]string{others[0], "never-on-n"}, others[1:]...)...)
	})
}

// TestNextStale: drivers that are stale are forgotten, and the one that was lost first of the others is next.
func TestNextStale(t *testing.T) {
	now := time.Now()
	p := &plugins{absent: make(map[string]time.Time)}
	expect := func(at time.Time, drivers ...string) {
		t.Helper()
		if next := p.nextStale(now); !next.Equal(at) {
			t.Errorf("next is %v, want %v", next, at)
		}
		same(t, "drivers that were lost", slices.Sorted(maps.Keys(p.absent)), drivers...)
	}
	expect(time.Time{})
	for driver, seconds := range map[string]int{"long-ago": 31, "stale": 30, "first": 29, "second": 20, "third": 10} {
		p.absent[driver] = now.Add(-time.Duration(seconds) * time.Second)
	}
	expect(now.Add(time.Second), "first", "second", "third")
	now = now.Add(time.Second)
	expect(now.Add(9*time.Second), "second", "third")
}

// TestLostAgain: a driver that registers again and is lost again counts as absent since then, not since it was lost before.
func TestLostAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plugins{changed: make(chan struct{}), lost: make(chan struct{}, 1)}
		p.ctx, p.cancel = context.WithCancel(t.Context())
		defer p.stop()
		p.recordAbsences()
		register := func() (at time.Time) {
			conn, err := dial(filepath.Join(t.TempDir(), "nobody-listens.sock"))
			if err != nil {
				t.Fatal(err)
			}
			at = time.Now()
			p.replace("reg.sock", &plugin{driver: gpus, socket: "reg.sock", conn: conn})
			return at
		}
		expectSince := func(want time.Time) {
			t.Helper()
			synctest.Wait()
			p.mutex.Lock()
			defer p.mutex.Unlock()
			if since, absent := p.absent[gpus]; !absent || !since.Equal(want) {
				t.Errorf("absent since %v (%v), want %v", since, absent, want)
			}
		}
		lost := register()
		expectSince(lost)
		p.replace("reg.sock", nil) // the socket is removed
		expectSince(lost)
		time.Sleep(slicesDelay - time.Second)
		expectSince(register())
	})
}

// TestDriverKilledWithSocket: a process that was killed leaves its socket. It counts as absent, as one does that removed its socket, and an older process of the driver is called.
func TestDriverKilledWithSocket(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	p := n.preparer.plugins
	expect := func(absent bool, connected map[string]bool) {
		t.Helper()
		fakecluster.Eventually(t, fmt.Sprint(connected, absent), func() bool {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			got := map[string]bool{}
			for _, known := range p.known {
				got[filepath.Base(known.socket)] = known.connected
			}
			_, gotAbsent := p.absent[gpus]
			return maps.Equal(got, connected) && gotAbsent == absent
		})
	}
	const one, two = gpus + ".sock", "second.sock"
	first := n.driver(t, gpus)
	expect(false, map[string]bool{one: true})
	sub := filepath.Join(n.folder, "s")
	if err := os.Mkdir(sub, 0o750); err != nil {
		t.Fatal(err)
	}
	second := startDriver(t, sub, gpus)
	if err := os.Link(second.Endpoint, filepath.Join(n.registry(), two)); err != nil {
		t.Fatal(err)
	}
	expect(false, map[string]bool{one: true, two: true})
	second.Kill()
	expect(false, map[string]bool{one: true, two: false})
	n.prepare(t, pod("a", "one"))
	same(t, "calls of the process that is left", first.Taken(), "prepare one")
	first.Kill()
	expect(true, map[string]bool{one: false, two: false})
	if err := os.Remove(first.Endpoint); err != nil {
		t.Fatal(err)
	}
	listen(t, first)
	expect(false, map[string]bool{one: true, two: false})

	if err := os.Remove(filepath.Join(n.registry(), two)); err != nil {
		t.Fatal(err)
	}
	first.Stop() // which removes its socket
	expect(true, map[string]bool{})
	listen(t, first)
	expect(false, map[string]bool{one: true})
}
