// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue has the work queues of a virtual node's pod controller: keys that
// are handled by a few workers, again after a while if that failed.
//
// A Queue is a rate limited queue of client-go, and has three things besides. Keys
// can be forgotten, which takes them out before they are handled. A retry
// function may end the attempts for a key, or choose when the next one is. And it
// starts no goroutine before Run, so that keys can be added to one that never runs.
package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// ShouldRetryFunc decides what happens to a key whose handling failed. timesTried
// is 1 after the first failure, originallyAdded when the key was added before it,
// err why it failed. If the function returns an error, the key is given up, and the error
// says why. Otherwise it is handled again after the duration, or, if that is nil,
// when the queue's rate limiter says.
type ShouldRetryFunc func(ctx context.Context, key string, timesTried int, originallyAdded time.Time, err error) (*time.Duration, error)

// DefaultRetryFunc never gives up.
func DefaultRetryFunc(context.Context, string, int, time.Time, error) (*time.Duration, error) {
	return nil, nil
}

// The pauses after the first failures, and after many.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 1000 * time.Second
)

// DefaultRateLimiter doubles the pause with each failure of a key. Keys do not
// delay each other.
func DefaultRateLimiter() workqueue.RateLimiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[any](shortestPause, longestPause)
}

// Queue hands each key to one worker at a time. Methods may be called concurrently.
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
	added   time.Time
	due     time.Time // when it is to be handled, if queued
	queued  bool
	limited bool // it is queued, and waits for the rate limiter only
	handled bool // a worker has it
	failed  int
	forgets bool // Forget was called while it was handled
}

// New returns an empty queue. The name is for the log. A nil limiter or retry
// function stands for the default one.
func New(limiter workqueue.RateLimiter, name string, handle func(ctx context.Context, key string) error, retry ShouldRetryFunc) *Queue {
	if limiter == nil {
		limiter = DefaultRateLimiter()
	}
	if retry == nil {
		retry = DefaultRetryFunc
	}
	return &Queue{name: name, limiter: limiter, handle: handle, retry: retry, items: make(map[string]*item)}
}

// Enqueue adds a key, to be handled when the rate limiter permits. A key that
// waits because it failed, or because of EnqueueAfter, waits no longer: something
// happened that is a reason to look.
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

// EnqueueAfter adds a key that is to be handled after a while, unless it is
// to be handled earlier than that already.
func (q *Queue) EnqueueAfter(_ context.Context, key string, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(key, pause)
}

// Forget takes a key out. If it is being handled, it is not handled again. What
// is enqueued later is.
func (q *Queue) Forget(_ context.Context, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.items[key]; ok {
		known.queued, known.limited, known.forgets = false, false, true
	}
	q.limiter.Forget(key)
}

// Len is how many keys wait to be handled, or are being handled.
func (q *Queue) Len() int { return q.UnprocessedLen() + q.ItemsBeingProcessedLen() }

// UnprocessedLen is how many keys wait, for a worker or for their time.
func (q *Queue) UnprocessedLen() int { return q.count(func(i *item) bool { return i.queued }) }

// ItemsBeingProcessedLen is how many keys are being handled.
func (q *Queue) ItemsBeingProcessedLen() int { return q.count(func(i *item) bool { return i.handled }) }

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

// add is called with the lock held.
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

// Run handles keys until ctx ends, and returns when the workers have finished what they
// were doing. It must not be called twice at a time.
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

// open makes the queue of workers, of all that was enqueued so far.
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

// next handles a key. It returns false when there will be no more.
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

// begin is false for keys that were forgotten or are not due.
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
		// An entry of the workers' queue outlived the time when the key was
		// brought forward, and took the place of the one for this time.
		if q.work != nil {
			q.work.AddAfter(key, pause)
		}
		return false
	}
	known.queued, known.limited, known.forgets, known.handled = false, false, false, true
	return true
}

// end puts a key back if its handling failed.
func (q *Queue) end(ctx context.Context, key string, err error) {
	q.mu.Lock()
	q.items[key].handled = false
	q.mu.Unlock()
	if err != nil && ctx.Err() == nil && q.again(ctx, key, err) {
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

// again tells whether there is another attempt. The retry function is called without
// the lock, so that it may use the queue.
func (q *Queue) again(ctx context.Context, key string, err error) bool {
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
	if known.forgets {
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
