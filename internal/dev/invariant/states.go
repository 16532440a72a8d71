// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// states are all claims as they were at one moment, again and again: after each event of
// a watch, and after each list as a whole. An informer's lister is not that: when its watch
// broke, what it had and what it lists are mixed for a while.
type states struct {
	check func([]*resourceapi.ResourceClaim)

	listed func() // called when the claims were listed for the first time

	mutex  sync.Mutex
	claims map[string]*resourceapi.ResourceClaim
}

// follow begins to follow the claims of a cluster, and returns when they were listed once.
// It ends with ctx.
func follow(ctx context.Context, client kubernetes.Interface, check func([]*resourceapi.ResourceClaim)) (*states, error) {
	listed := make(chan struct{})
	s := &states{check: check, claims: make(map[string]*resourceapi.ResourceClaim), listed: sync.OnceFunc(func() { close(listed) })}
	claims := client.ResourceV1().ResourceClaims("")
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return claims.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return claims.Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, client), &resourceapi.ResourceClaim{}, s, cache.ReflectorOptions{})
	go reflector.RunWithContext(ctx)
	select {
	case <-listed:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("watch invariants: no list of claims: %w", context.Cause(ctx))
	}
}

// all are the claims now.
func (s *states) all() []*resourceapi.ResourceClaim {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Collect(maps.Values(s.claims))
}

// Add implements cache.ReflectorStore.
func (s *states) Add(object any) error { return s.change(object, false) }

// Update implements cache.ReflectorStore.
func (s *states) Update(object any) error { return s.change(object, false) }

// Delete implements cache.ReflectorStore.
func (s *states) Delete(object any) error { return s.change(object, true) }

func (s *states) change(object any, deleted bool) error {
	claim, ok := object.(*resourceapi.ResourceClaim)
	if !ok {
		return fmt.Errorf("%T is no claim", object)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := cache.MetaObjectToName(claim).String()
	if deleted {
		delete(s.claims, key)
		return nil
	}
	s.claims[key] = claim
	s.check(slices.Collect(maps.Values(s.claims)))
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *states) Replace(objects []any, _ string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.claims)
	for _, object := range objects {
		claim, ok := object.(*resourceapi.ResourceClaim)
		if !ok {
			return fmt.Errorf("%T is no claim", object)
		}
		s.claims[cache.MetaObjectToName(claim).String()] = claim
	}
	s.check(slices.Collect(maps.Values(s.claims)))
	s.listed()
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to do again.
func (s *states) Resync() error { return nil }
