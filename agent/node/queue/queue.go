// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue has the work queues of a virtual node's pod controller.
//
// A Queue is a rate-limited workqueue of client-go with three additions. Forget removes a key
// before it is handled. A retry function may give up a key, or choose the time of its next attempt.
// No goroutine starts before Run, so that a queue that never runs leaks none.
package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// ShouldRetryFunc decides what happens to a key whose handling failed with err. timesTried is 1
// after the first failure. originallyAdded is the time when the key was added. If the function
// returns an error, the key is given up, and the error is logged. Otherwise the key is handled
// again after the returned duration, or, if that is nil, when the rate limiter permits.
type ShouldRetryFunc func(ctx context.Context, key string, timesTried int, originallyAdded time.Time, err error) (*time.Duration, error)

// DefaultRetryFunc never gives up.
func DefaultRetryFunc(context.Context, string, int, time.Time, error) (*time.Duration, error) {
	return nil, nil
}

// The limits of the backoff of DefaultRateLimiter.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 1000 * time.Second
)

// DefaultRateLimiter returns an exponential backoff per key.
func DefaultRateLimiter() workqueue.RateLimiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[any](shortestPause, longestPause)
}

// Queue gives each key to one worker at a time. Its methods may be called concurrently.
type Queue struct {
	name    string
	limiter workqueue.RateLimiter
	handle  func(ctx context.Context, key string) error
	retry   ShouldRetryFunc

	mu    sync.Mutex
	items map[string]*item
	work  workqueue.TypedDelayingInterface[any] // nil unless Run runs
}

// item is a key that is queued, being handled, or both.
type item struct {
	added      time.Time
	due        time.Time // when it is to be handled, if queued
	queued     bool
	limited    bool // queued with the delay of the rate limiter, as new work
	inProgress bool // a worker handles it now
	failed     int
	forgotten  bool // Forget was called while it was handled
}

// New returns an empty queue. The name is used in logs. A nil limiter or retry function stands for
// the default.
func New(limiter workqueue.RateLimiter, name string, handle func(ctx context.Context, key string) error, retry ShouldRetryFunc) *Queue {
	if limiter == nil {
		limiter = DefaultRateLimiter()
	}
	if retry == nil {
		retry = DefaultRetryFunc
	}
	return &Queue{name: name, limiter: limiter, handle: handle, retry: retry, items: make(map[string]*item)}
}

// Enqueue adds a key, to be handled when the rate limiter permits. A key that waits for a retry, or
// because of EnqueueAfter, becomes due at once, since there is new work for it.
func (q *Queue) Enqueue(_ context.Context, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known, ok := q.items[key]
	switch {
	case ok && known.limited:
	case ok && known.queued:
		q.add(key, 0)
	default:
		q.add(key, q.limiter.When(key))
		q.items[key].limited = true
	}
}

// EnqueueAfter adds a key that becomes due after a pause. A key that is due earlier stays so.
func (q *Queue) EnqueueAfter(_ context.Context, key string, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(key, pause)
}

// Forget removes a key. If the key is being handled, it is not retried. Later calls of Enqueue add
// it again.
func (q *Queue) Forget(_ context.Context, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.items[key]; ok {
		known.queued, known.limited, known.forgotten = false, false, true
	}
	q.limiter.Forget(key)
}

// Len returns the number of keys that wait or are being handled.
func (q *Queue) Len() int { return q.UnprocessedLen() + q.ItemsBeingProcessedLen() }

// UnprocessedLen returns the number of keys that wait, for a worker or for their time.
func (q *Queue) UnprocessedLen() int { return q.count(func(i *item) bool { return i.queued }) }

// ItemsBeingProcessedLen returns the number of keys that are being handled.
func (q *Queue) ItemsBeingProcessedLen() int {
	return q.count(func(i *item) bool { return i.inProgress })
}

func (q *Queue) count(is func(*item) bool) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, known := range q.items {
		if is(known) {
			n++
		}
	}
	return n
}

// add queues a key. The caller holds the lock.
func (q *Queue) add(key string, pause time.Duration) {
	now := time.Now()
	known, ok := q.items[key]
	if !ok {
		known = &item{added: now}
		q.items[key] = known
	}
	due := now.Add(pause)
	if known.queued && !due.Before(known.due) {
		return
	}
	known.queued, known.limited, known.due = true, false, due
	if q.work != nil {
		q.work.AddAfter(key, pause)
	}
}

// Run handles keys until ctx ends, and returns when the workers are idle. It must not be called
// concurrently with itself.
func (q *Queue) Run(ctx context.Context, workers int) error {
	if workers < 1 {
		return fmt.Errorf("queue %s: %d workers: at least 1 is required", q.name, workers)
	}
	work := q.open()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for q.next(ctx, work) {
			}
		})
	}
	<-ctx.Done()
	q.close(work)
	group.Wait()
	return nil
}

// open creates the workqueue, with all keys that were added before.
func (q *Queue) open() workqueue.TypedDelayingInterface[any] {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.work = workqueue.NewTypedDelayingQueue[any]()
	for key, known := range q.items {
		if known.queued {
			q.work.AddAfter(key, time.Until(known.due))
		}
	}
	return q.work
}

func (q *Queue) close(work workqueue.TypedDelayingInterface[any]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.work = nil
	work.ShutDown()
}

// next handles one key. It returns false when the workqueue was shut down.
func (q *Queue) next(ctx context.Context, work workqueue.TypedDelayingInterface[any]) bool {
	object, done := work.Get()
	if done {
		return false
	}
	defer work.Done(object)
	key := object.(string)
	if ctx.Err() != nil || !q.begin(key) {
		return true
	}
	q.end(ctx, key, q.handle(ctx, key))
	return true
}

// begin marks a key as being handled. It returns false for keys that were forgotten or are not due.
func (q *Queue) begin(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	known, ok := q.items[key]
	if !ok {
		return false
	}
	if !known.queued {
		delete(q.items, key)
		return false
	}
	if pause := time.Until(known.due); pause > 0 {
		// The workqueue had an entry from before the key was made due earlier. It replaced the
		// entry for the current due time.
		if q.work != nil {
			q.work.AddAfter(key, pause)
		}
		return false
	}
	known.queued, known.limited, known.forgotten, known.inProgress = false, false, false, true
	return true
}

// end records that the handling of a key ended, and queues the key again if it failed.
func (q *Queue) end(ctx context.Context, key string, err error) {
	q.mu.Lock()
	q.items[key].inProgress = false
	q.mu.Unlock()
	if err != nil && ctx.Err() == nil && q.retryLater(ctx, key, err) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limiter.Forget(key)
	known := q.items[key]
	known.failed, known.added = 0, time.Now()
	if !known.queued {
		delete(q.items, key)
	}
}

// retryLater asks the retry function about a key that failed, and returns whether the key was
// queued again. It calls the function without the lock, so that the function may use the queue.
func (q *Queue) retryLater(ctx context.Context, key string, err error) bool {
	q.mu.Lock()
	tried, added := q.items[key].failed+1, q.items[key].added
	q.mu.Unlock()
	logger := klog.FromContext(ctx).WithValues("queue", q.name, "key", key, "failures", tried)
	pause, gaveUp := q.retry(ctx, key, tried, added, err)
	if gaveUp != nil {
		logger.Error(gaveUp, "Gave up")
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.items[key]
	if known.forgotten {
		return false
	}
	known.failed = tried
	logger.V(2).Info("Failed, and is repeated", "err", err)
	if pause == nil {
		limited := q.limiter.When(key)
		pause = &limited
	}
	q.add(key, *pause)
	return true
}
