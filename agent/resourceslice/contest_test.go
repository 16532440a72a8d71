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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// startInstance starts a controller of the driver on the node, and what it was told.
func startInstance(t *testing.T, s *server, resources *DriverResources) (publisher, *errorLog) {
	t.Helper()
	log := &errorLog{}
	c, err := peers["dray"](t.Context(), Options{
		DriverName: driver, KubeClient: s, Owner: &Owner{APIVersion: "v1", Kind: "Node", Name: node}, Resources: resources, ErrorHandler: log.handle,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// contested are the errors about contested pools, of those that were told.
func (l *errorLog) contested() (out []*ContestedPoolError) {
	for _, err := range l.all() {
		var contested *ContestedPoolError
		if errors.As(err, &contested) {
			out = append(out, contested)
		}
	}
	return out
}

// TestTwoPublishers: instances that want different things of one pool say so, and do not
// write for ever at the same rate. What a driver changes is published at once all the same.
func TestTwoPublishers(t *testing.T) {
	for name, other := range map[string]*DriverResources{
		"other devices": pool(devices("b")),
		"other slices":  pool(devices("a"), devices("b")),
		"other pool":    resources(map[string][]Slice{"other": {devices("b")}}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				first, firstLog := startInstance(t, s, pool(devices("a")))
				defer first.Stop()
				after(time.Minute)
				second, secondLog := startInstance(t, s, other)
				defer second.Stop()
				after(10 * time.Minute)
				for instance, log := range map[string]*errorLog{"first": firstLog, "second": secondLog} {
					told := log.contested()
					if len(told) == 0 || told[0].Repairs != contestedAfter || !strings.Contains(told[0].Error(), "another instance of the driver") {
						t.Errorf("the %s is told %v", instance, log.all())
					}
					for poolName := range other.Pools { // which is not the first's own if it has another name
						if !slices.ContainsFunc(told, func(err *ContestedPoolError) bool { return err.PoolName == poolName }) {
							t.Errorf("the %s is told nothing of pool %s: %v", instance, poolName, told)
						}
					}
				}
				s.attempts()
				after(2 * time.Hour)
				// At the rate of the start, there would be one every 30 s, of several writes.
				if got := len(s.attempts()); got > 130 {
					t.Errorf("%d writes in two hours", got)
				}
				first.Update(pool(devices("new")))
				after(time.Second)
				if got := strings.Join(s.published(t), " "); !strings.Contains(got, "new") {
					t.Errorf("published %q", got)
				}
			})
		})
	}
}

// TestTakeover: a new instance that publishes something else takes over from one that ends
// within a minute, and a person deletes a slice. Nobody is told. The first instance ends between two
// times at which instances repair: at such a time, it may do so once more, and then it is a third time.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		first, firstLog := startInstance(t, s, pool(devices("a")))
		after(10 * time.Minute)
		second, secondLog := startInstance(t, s, pool(devices("b")))
		defer second.Stop()
		after(DefaultSyncDelay + DefaultSyncDelay/2)
		first.Stop()
		after(time.Minute)
		deleteFirst(t, s)
		after(time.Hour)
		if told := slices.Concat(firstLog.all(), secondLog.all()); len(told) > 0 {
			t.Errorf("told %v", told)
		}
		if got, want := s.published(t), []string{node + "/2: 00000=b"}; !slices.Equal(got, want) && !slices.Equal(got, []string{node + "/1: 00000=b"}) {
			t.Errorf("published %q, want %q", got, want)
		}
	})
}

// TestNowAndThen: a person who deletes a slice once an hour is no other instance. After some of them in a row,
// the pool is put right at once again.
func TestNowAndThen(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Minute)
		for range 2 * contestedAfter {
			deleteFirst(t, s)
			after(time.Hour)
		}
		if told := log.contested(); len(told) > 0 {
			t.Errorf("told %v", told)
		}
		for range 3 * contestedAfter {
			deleteFirst(t, s)
			after(slowestRepair * DefaultSyncDelay)
			if got := s.published(t); len(got) != 1 {
				t.Errorf("published %q after the longest wait", got)
			}
		}
		if told := log.contested(); len(told) == 0 {
			t.Error("nothing is told of a pool that is put right again and again")
		}
	})
}

// TestPoolOfOthers: somebody publishes, every eight minutes, a pool that the driver does not have. That is told,
// as if the pool was the driver's own.
func TestPoolOfOthers(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Minute)
		for range 2 * contestedAfter {
			theirs := s.slices(t)[0]
			theirs.ObjectMeta = metav1.ObjectMeta{GenerateName: "theirs-"}
			theirs.Spec.Pool.Name = "other"
			if _, err := s.ResourceV1().ResourceSlices().Create(t.Context(), &theirs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			after(slowestRepair * DefaultSyncDelay)
			if got := s.published(t); len(got) != 1 {
				t.Fatalf("published %q", got)
			}
		}
		if told := log.contested(); len(told) == 0 || told[0].PoolName != "other" {
			t.Errorf("told %v", log.all())
		}
	})
}

// TestCollected: that the garbage collector deletes slices of a node that comes and goes is
// nothing that another instance does.
func TestCollected(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Minute)
		for _, uid := range []types.UID{"b", "c", "d", "e", "f"} {
			deleteNode(t, s)
			createNode(t, s, uid)
			after(time.Minute)
		}
		if told := log.contested(); len(told) > 0 {
			t.Errorf("told %v", told)
		}
	})
}

// TestWriter: the API server notes the times of writes to the second.
func TestWriter(t *testing.T) {
	second := func(n int64) *metav1.Time { return &metav1.Time{Time: time.Unix(n, 0)} }
	entry := func(manager string, n int64) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: second(n)}
	}
	type entries = []metav1.ManagedFieldsEntry
	for name, test := range map[string]struct {
		written [][]metav1.ManagedFieldsEntry // what answers had
		found   entries
		want    string
	}{
		"later":             {[]entries{{entry("ours", 1)}}, entries{entry("ours", 1), entry("rival", 2)}, "rival"},
		"same second":       {[]entries{{entry("ours", 1)}}, entries{entry("ours", 1), entry("rival", 1)}, "rival"},
		"same second again": {[]entries{{entry("old", 1), entry("ours", 1)}}, entries{entry("a", 1), entry("old", 1), entry("ours", 1)}, "a"},
		"own name":          {[]entries{{entry("ours", 1)}}, entries{entry("ours", 2)}, "ours"},
		"nothing new":       {[]entries{{entry("ours", 1), entry("old", 2)}}, entries{entry("ours", 1), entry("old", 2)}, ""},
		"other name before": {[]entries{{entry("ours", 2), entry("rival", 1)}}, entries{entry("ours", 2), entry("rival", 2)}, "rival"},
		"several slices":    {[]entries{{entry("ours", 1)}, {entry("ours", 2)}}, entries{entry("ours", 2), entry("rival", 2), entry("ours", 1)}, "rival"},
		"never written":     {nil, entries{entry("ours", 2), entry("rival", 1)}, "ours"},
		"nothing is known":  {nil, entries{{Manager: "x"}}, ""},
	} {
		var c contest
		for _, after := range test.written {
			c.wrote(after)
		}
		c.found([]*resourceapi.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.found}}})
		if c.writer != test.want {
			t.Errorf("%s: writer %q, want %q", name, c.writer, test.want)
		}
	}
	var c contest
	c.wrote(entries{entry("rival", 3)})
	c.found(nil)
	c.wrote(entries{entry("ours", 3)})
	c.found([]*resourceapi.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries{entry("ours", 3), entry("rival", 3)}}}})
	if c.writer != "rival" {
		t.Errorf("writer %q: what answers had before the last repair counts", c.writer)
	}
}

// TestWaitOfContest: the first repairs are made at once. Then each waits twice as long as the one before, up to a limit.
func TestWaitOfContest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncDelay = time.Second
		for repairs, want := range map[int]time.Duration{
			0: 0, contestedAfter - 1: 0, contestedAfter: 2, contestedAfter + 1: 4, contestedAfter + 2: 8,
			contestedAfter + 100: slowestRepair, 1 << 40: slowestRepair,
		} {
			c := &contest{repairs: repairs, last: time.Now()}
			if got := c.wait(syncDelay); got != want*syncDelay {
				t.Errorf("after %d repairs: %v, want %v", repairs, got, want*syncDelay)
			}
		}
	})
}
