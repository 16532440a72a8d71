package resourceslice

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
// within a minute, and a person edits a slice. Nobody is told.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		first, firstLog := startInstance(t, s, pool(devices("a")))
		after(10 * time.Minute)
		second, secondLog := startInstance(t, s, pool(devices("b")))
		defer second.Stop()
		after(time.Minute)
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
