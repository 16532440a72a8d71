// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

// Comparer puts cases to two allocators. It is safe for concurrent use if they are.
type Comparer struct {
	Ours, Peer alloctest.Allocator
	// PeerLimit is how long the peer may take for a case before its answer counts as
	// missing. Ours may take OurLimit before that counts as a disagreement.
	PeerLimit, OurLimit time.Duration
	// PeerSteps is how many steps the peer may take, which unlike time does not depend on
	// what else the machine does; a step is a look at its context. Zero is no limit.
	PeerSteps int64
	// Decision returns the number of the decision that excuses differences on a case. The default
	// is clustergen.Decision.
	Decision func(*alloctest.Case) string
	// PeerTries is how often the peer is asked as long as its answer differs: its answers
	// may be random. Zero is once.
	PeerTries int
	// Meter, if set, measures how long our decision alone takes.
	Meter *peer.Meter
}

// Verdict is the result of one comparison.
type Verdict struct {
	// Disagreement says what is wrong with our answer; empty if nothing is.
	Disagreement string
	// Decision is the number of the decision that excuses a difference to the
	// peer's answer; empty if there is no difference or no excuse.
	Decision    string
	PeerTimeout bool
	Ours, Peer  alloctest.Outcome
	// OurTime is, if there is a Meter, how long our answer took, or only our decision if
	// that was long.
	OurTime time.Duration
}

// Class is the class of the peer's answer, or of ours if the peer gave none in time.
func (v Verdict) Class() Class {
	if v.PeerTimeout {
		return ClassOf(v.Ours)
	}
	return ClassOf(v.Peer)
}

// guarded tells whether the case is one of those, one in eight, of which is checked that
// they are not modified. That costs as much as to answer them.
func guarded(c *alloctest.Case) bool {
	h := fnv.New32a()
	h.Write([]byte(c.Name))
	return h.Sum32()%8 == 0
}

// Compare asks both allocators. What is wrong with our answer by itself (it is late or
// not correct, the case was modified) is never excused.
func (r *Comparer) Compare(ctx context.Context, c *alloctest.Case) Verdict {
	var v Verdict
	var before *alloctest.Case
	if guarded(c) {
		before = c.DeepCopy()
	}
	start := time.Now()
	v.Ours = ask(ctx, r.Ours, c, r.OurLimit, 0)
	v.OurTime = r.decide(ctx, c, time.Since(start))
	v.Disagreement = r.judge(c, before, v.Ours)
	v.Peer = r.askPeer(ctx, c)
	v.PeerTimeout = isTimeout(v.Peer.Err)
	if v.Disagreement != "" || v.PeerTimeout {
		return v
	}
	different := difference(v.Ours, v.Peer)
	for tries := 1; different != "" && tries < r.PeerTries; tries++ {
		v.Peer = r.askPeer(ctx, c)
		different = difference(v.Ours, v.Peer)
	}
	if different != "" {
		if v.Decision = r.decision(c); v.Decision == "" {
			v.Disagreement = different
		}
	}
	return v
}

func (r *Comparer) decision(c *alloctest.Case) string {
	if r.Decision != nil {
		return r.Decision(c)
	}
	return clustergen.Decision(c)
}

const (
	// Slow is how long a decision should not take.
	Slow = 10 * time.Millisecond
	// repeats is how often a slow decision is measured: other programs may be to blame.
	repeats = 5
)

// decide returns how long our decision takes, at best of some times. Until it may be slow,
// that is how long the whole answer took, with all that precedes a decision.
func (r *Comparer) decide(ctx context.Context, c *alloctest.Case, took time.Duration) time.Duration {
	switch {
	case r.Meter == nil:
		return 0
	case took <= Slow:
		return took
	}
	best := time.Duration(math.MaxInt64)
	for range repeats {
		m, err := r.Meter.Measure(ctx, c)
		if err != nil {
			return 0
		}
		if best = min(best, m.Time); best <= Slow {
			break
		}
	}
	return best
}

func ask(ctx context.Context, a alloctest.Allocator, c *alloctest.Case, limit time.Duration, steps int64) (o alloctest.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		// A case that crashes an allocator is no reason not to compare the others.
		if crash := recover(); crash != nil {
			o = alloctest.Outcome{Err: fmt.Errorf("panic: %v\n%s", crash, debug.Stack())}
		}
	}()
	return a(withSteps(ctx, steps), c)
}

func (r *Comparer) askPeer(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
	return ask(ctx, r.Peer, c, r.PeerLimit, r.PeerSteps)
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// judge says what is wrong with our answer without looking at the peer's.
func (r *Comparer) judge(c, before *alloctest.Case, o alloctest.Outcome) string {
	if before != nil && !equality.Semantic.DeepEqual(before, c) {
		return "our allocator modified the case"
	}
	if isTimeout(o.Err) {
		return fmt.Sprintf("no answer within %s", r.OurLimit)
	}
	if o.Results == nil {
		return ""
	}
	if err := oracle.Verify(c, o.Results); err != nil {
		return fmt.Sprintf("our answer is not correct: %v", err)
	}
	return ""
}

func difference(ours, peer alloctest.Outcome) string {
	if a, b := ClassOf(ours), ClassOf(peer); a != b {
		return fmt.Sprintf("ours is %s%s, the peer's %s%s", a, reason(ours), b, reason(peer))
	}
	if d := oracle.Equal(ours.Results, peer.Results); d != "" {
		return "the answers differ (- ours, + peer):\n" + d
	}
	return ""
}

func reason(o alloctest.Outcome) string {
	if o.Err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", o.Err)
}
