// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// dra stands for a scheduler.
type dra struct{ fwk.SharedDRAManager }

// informer has one handler, or fails.
type informer struct {
	cache.SharedInformer
	handlers []cache.ResourceEventHandler
	fails    error
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	if i.fails != nil {
		return nil, i.fails
	}
	i.handlers = append(i.handlers, handler)
	return nil, nil
}

// The profiles of a scheduler have one watch, which follows the claims once. Another scheduler has another one.
func TestWatchIsShared(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	one, claims, found := &dra{}, &informer{}, 0
	count := func(*resourceapi.ResourceClaim, string, bool) { found++ }
	first, err := Of(ctx, one, claims, count)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Of(ctx, one, claims, nil)
	if err != nil || second != first || len(claims.handlers) != 1 {
		t.Fatalf("a second profile has %v with %d handlers, error %v", second, len(claims.handlers), err)
	}
	if other, err := Of(ctx, &dra{}, claims, count); err != nil || other == first {
		t.Errorf("another scheduler has the same watch, error %v", err)
	}
	second.Allocates("ours", claim("ours", "gpu").Status.Allocation)
	claims.handlers[0].OnUpdate(claim("theirs"), claim("theirs", "gpu"))
	claims.handlers[0].OnUpdate(claim("ours"), claim("ours", "gpu"))
	claims.handlers[0].OnDelete(claim("ours", "gpu"))
	claims.handlers[0].OnUpdate(claim("ours"), claim("ours", "gpu"))
	if found != 2 {
		t.Errorf("%d allocations of others, want that of theirs, and of ours after it was deleted", found)
	}
	cancel()
	failing := &informer{fails: errors.New("no informer")}
	if watch, err := Of(t.Context(), &dra{}, failing, count); watch != nil || err == nil || err.Error() != "follow resource claims: no informer" {
		t.Errorf("%v, error %v", watch, err)
	}
}

// What is no claim is not looked at, and without a watch nobody cares.
func TestNothingToWatch(t *testing.T) {
	w := &Watch{ours: map[types.UID]bool{"ours": true}, drivers: map[string]time.Time{"gpu": {}}}
	w.found = func(c *resourceapi.ResourceClaim, _ string, _ bool) { t.Errorf("found %v", c) }
	w.updated(&corev1.Pod{}, claim("theirs", "gpu"))
	w.updated(claim("theirs"), &corev1.Pod{})
	w.updated(claim("theirs"), claim("theirs"))
	w.deleted(&corev1.Pod{})
	if w.deleted(cache.DeletedFinalStateUnknown{Obj: &corev1.Pod{}}); !w.ours["ours"] {
		t.Error("a claim is forgotten because of something else")
	}
	var none *Watch
	none.Allocates("ours", claim("ours", "gpu").Status.Allocation)
	none.Forgets("ours")
}
