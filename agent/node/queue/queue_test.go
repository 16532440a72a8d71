// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/node/queue"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// handled is what a queue's handler was called with, and when.
type handled struct {
	key string
	at  time.Duration
}

// recorder handles keys as the test says, and keeps what was handled.
type recorder struct {
	start  time.Time
	answer func(key string, times int) error

	mu    sync.Mutex
	calls []handled
}

func (r *recorder) handle(_ context.Context, key string) error {
	r.mu.Lock()
	r.calls = append(r.calls, handled{key, time.Since(r.start)})
	times := 0
	for _, call := range r.calls {
		if call.key == key {
			times++
		}
	}
	r.mu.Unlock()
	if r.answer == nil {
		return nil
	}
	return r.answer(key, times)
}

// expect compares what was handled with what the test wants. Keys that are due at the same time are handled by several workers, in
// any order: both lists have them by name.
func (r *recorder) expect(t *testing.T, want ...handled) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := slices.Clone(r.calls)
	slices.SortStableFunc(calls, func(x, y handled) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.key, y.key)) })
	if !slices.Equal(calls, want) {
		t.Errorf("handled %v, want %v", calls, want)
	}
}

// run runs a test's queue in a bubble with a clock of its own.
func run(t *testing.T, r *recorder, limiter workqueue.RateLimiter, retry queue.ShouldRetryFunc, test func(ctx context.Context, q *queue.Queue)) {
	synctest.Test(t, func(t *testing.T) {
		r.start = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		q := queue.New(limiter, "test", r.handle, retry)
		var group sync.WaitGroup
		group.Go(func() {
			if err := q.Run(ctx, 2); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		test(ctx, q)
		cancel()
		group.Wait()
	})
}

const pause = 5 * time.Millisecond // before the default limiter lets a key pass

func TestKeysThatComeTogetherAreHandledOnce(t *testing.T) {
	r := &recorder{}
	run(t, r, nil, nil, func(ctx context.Context, q *queue.Queue) {
		for range 100 {
			q.Enqueue(ctx, "a")
		}
		q.Enqueue(ctx, "b")
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", pause}, handled{"b", pause})
	})
}

func TestEventsWhileAKeyIsHandledAreNotLost(t *testing.T) {
	release := make(chan struct{})
	r := &recorder{}
	var tries []int
	retry := func(_ context.Context, _ string, tried int, _ time.Time, _ error) (*time.Duration, error) { //nolint:unparam // it gives up
		tries = append(tries, tried)
		return nil, errors.New("one is enough")
	}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		r.start = time.Now()
		r.answer = func(_ string, times int) error {
			if times == 1 {
				<-release
				return nil
			}
			return errors.New("fails")
		}
		ctx, cancel := context.WithCancel(t.Context())
		q := queue.New(nil, "test", r.handle, retry)
		var group sync.WaitGroup
		group.Go(func() { _ = q.Run(ctx, 2) })
		q.EnqueueAfter(ctx, "a", 0)
		synctest.Wait()
		q.EnqueueAfter(ctx, "a", 0)
		r.expect(t, handled{"a", 0})
		close(release)
		r.expect(t, handled{"a", 0}, handled{"a", 0})
		cancel()
		group.Wait()
		if !slices.Equal(tries, []int{1}) {
			t.Errorf("the event is attempt %v, want the first one", tries)
		}
	})
}

func TestFailuresAreRepeatedLaterEachTime(t *testing.T) {
	r := &recorder{answer: func(_ string, times int) error {
		if times < 4 {
			return errors.New("fails")
		}
		return nil
	}}
	run(t, r, nil, nil, func(ctx context.Context, q *queue.Queue) {
		q.EnqueueAfter(ctx, "a", 0)
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", 0}, handled{"a", pause}, handled{"a", 3 * pause}, handled{"a", 7 * pause})
		// Success resets the pause.
		q.Enqueue(ctx, "a")
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", 0}, handled{"a", pause}, handled{"a", 3 * pause}, handled{"a", 7 * pause}, handled{"a", time.Hour + pause})
	})
}

// TestLengths counts a key that waits to be handled again as one that waits, and no more as one that is handled.
func TestLengths(t *testing.T) {
	r := &recorder{answer: func(_ string, times int) error {
		time.Sleep(time.Second)
		if times == 1 {
			return errors.New("the first time")
		}
		return nil
	}}
	minute := time.Minute
	retry := func(context.Context, string, int, time.Time, error) (*time.Duration, error) { return &minute, nil }
	run(t, r, nil, retry, func(ctx context.Context, q *queue.Queue) {
		q.EnqueueAfter(ctx, "a", 0)
		for _, want := range []struct {
			after            time.Duration
			waiting, handled int
		}{{time.Second / 2, 0, 1}, {time.Second, 1, 0}, {minute, 0, 1}, {time.Second, 0, 0}} {
			time.Sleep(want.after)
			synctest.Wait()
			if waiting, handled := q.UnprocessedLen(), q.ItemsBeingProcessedLen(); waiting != want.waiting || handled != want.handled || q.Len() != waiting+handled {
				t.Errorf("%s later: %d wait, %d are handled, %d in all, want %d and %d", want.after, waiting, handled, q.Len(), want.waiting, want.handled)
			}
		}
	})
}

func TestAnEventEndsTheWait(t *testing.T) {
	r := &recorder{answer: func(_ string, times int) error {
		if times == 1 {
			return errors.New("fails")
		}
		return nil
	}}
	later := func(context.Context, string, int, time.Time, error) (*time.Duration, error) {
		return ptr.To(time.Hour), nil
	}
	run(t, r, nil, later, func(ctx context.Context, q *queue.Queue) {
		q.EnqueueAfter(ctx, "a", 0)
		time.Sleep(time.Minute)
		q.Enqueue(ctx, "a")
		time.Sleep(time.Minute)
		r.expect(t, handled{"a", 0}, handled{"a", time.Minute})
		// What was brought forward is not in the way of what is due later than it was.
		q.EnqueueAfter(ctx, "a", 2*time.Hour)
		time.Sleep(10 * time.Hour)
		r.expect(t, handled{"a", 0}, handled{"a", time.Minute}, handled{"a", 2*time.Minute + 2*time.Hour})
	})
}

func TestRetryFunctionDecides(t *testing.T) {
	type attempt struct {
		tried int
		added time.Duration
		err   string
	}
	var attempts []attempt
	r := &recorder{answer: func(string, int) error { return errors.New("fails") }}
	retry := func(_ context.Context, _ string, tried int, added time.Time, err error) (*time.Duration, error) {
		attempts = append(attempts, attempt{tried, added.Sub(r.start), err.Error()})
		if tried == 3 {
			return nil, errors.New("three are enough")
		}
		return ptr.To(time.Second), nil
	}
	run(t, r, nil, retry, func(ctx context.Context, q *queue.Queue) {
		time.Sleep(time.Second)
		q.EnqueueAfter(ctx, "a", 0)
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", time.Second}, handled{"a", 2 * time.Second}, handled{"a", 3 * time.Second})
		if want := []attempt{{1, time.Second, "fails"}, {2, time.Second, "fails"}, {3, time.Second, "fails"}}; !slices.Equal(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
		// What was given up starts anew when it is enqueued again.
		q.EnqueueAfter(ctx, "a", 0)
		synctest.Wait()
		if attempts[3].tried != 1 || attempts[3].added != time.Second+time.Hour {
			t.Errorf("the next attempt is %v", attempts[3])
		}
	})
}

// TestEnqueueWhileHandled: a key that was queued by Enqueue is queued by it again while it is handled.
func TestEnqueueWhileHandled(t *testing.T) {
	r := &recorder{}
	run(t, r, workqueue.NewTypedItemExponentialFailureRateLimiter[any](time.Second, time.Hour), nil, func(ctx context.Context, q *queue.Queue) {
		r.answer = func(key string, times int) error {
			if times < 3 {
				q.Enqueue(ctx, key)
				q.Enqueue(ctx, key)
			}
			return nil
		}
		q.Enqueue(ctx, "a")
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", time.Second}, handled{"a", 3 * time.Second}, handled{"a", 4 * time.Second})
	})
}

func TestForget(t *testing.T) {
	r := &recorder{}
	run(t, r, nil, nil, func(ctx context.Context, q *queue.Queue) {
		q.EnqueueAfter(ctx, "a", time.Second)
		q.EnqueueAfter(ctx, "b", time.Second)
		q.Forget(ctx, "a")
		q.Forget(ctx, "unknown")
		time.Sleep(time.Hour)
		r.expect(t, handled{"b", time.Second})
		q.EnqueueAfter(ctx, "a", 0)
		r.expect(t, handled{"b", time.Second}, handled{"a", time.Hour})
	})
}

func TestForgetWhileHandled(t *testing.T) {
	var q *queue.Queue
	r := &recorder{}
	r.answer = func(key string, _ int) error {
		q.Forget(context.Background(), key)
		return errors.New("fails")
	}
	run(t, r, nil, nil, func(ctx context.Context, running *queue.Queue) {
		q = running
		q.EnqueueAfter(ctx, "a", 0)
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", 0})
	})
}

func TestTheLimiterDecidesWhen(t *testing.T) {
	limiter := &workqueue.TypedBucketRateLimiter[any]{Limiter: rate.NewLimiter(1, 1)}
	r := &recorder{}
	run(t, r, limiter, nil, func(ctx context.Context, q *queue.Queue) {
		q.Enqueue(ctx, "a")
		q.Enqueue(ctx, "b")
		q.Enqueue(ctx, "b")
		q.Enqueue(ctx, "c")
		time.Sleep(time.Hour)
		r.expect(t, handled{"a", 0}, handled{"b", time.Second}, handled{"c", 2 * time.Second})
	})
}

// TestKeysBeforeRun also shows that a queue that never ran left no goroutine.
func TestKeysBeforeRun(t *testing.T) {
	ctx := t.Context()
	queue.New(nil, "never runs", func(context.Context, string) error { return nil }, nil).Enqueue(ctx, "a")
	r := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		r.start = time.Now()
		q := queue.New(nil, "test", r.handle, nil)
		q.EnqueueAfter(t.Context(), "a", time.Minute)
		q.EnqueueAfter(t.Context(), "b", time.Second)
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = q.Run(ctx, 1) })
		time.Sleep(time.Hour)
		r.expect(t, handled{"b", 2 * time.Second}, handled{"a", time.Minute})
		cancel()
		group.Wait()
	})
}

func TestRunWaitsForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := false
		q := queue.New(nil, "test", func(ctx context.Context, _ string) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			finished = true
			return ctx.Err()
		}, nil)
		q.EnqueueAfter(t.Context(), "a", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Run(ctx, 1); err != nil || !finished {
			t.Errorf("got %v, finished %t", err, finished)
		}
	})
}

func TestRunRefusesNoWorkers(t *testing.T) {
	if err := queue.New(nil, "test", nil, nil).Run(t.Context(), 0); err == nil {
		t.Error("no error")
	}
}
