package differential

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
	"github.com/dray-project/dray/internal/oracle"
	"github.com/dray-project/dray/internal/peer"
)

// Comparer puts cases to two allocators. It is safe for concurrent use if they are.
type Comparer struct {
	Ours, Peer alloctest.Allocator
	// PeerLimit is how long the peer may take for a case before its answer counts as
	// missing. Ours may take OurLimit before that counts as a disagreement.
	PeerLimit, OurLimit time.Duration
	// Meter, if set, measures how long our decision alone takes.
	Meter *peer.Meter
}

// Verdict is the result of one comparison.
type Verdict struct {
	// Disagreement says what is wrong with our answer; empty if nothing is.
	Disagreement string
	// Decision is the number of the decision record that excuses a difference to the
	// peer's answer; empty if there is no difference or no excuse.
	Decision    string
	PeerTimeout bool
	Ours, Peer  alloctest.Outcome
	// OurTime is how long our decision took by itself, if there is a Meter.
	OurTime time.Duration
}

// Class is the class of the peer's answer, or of ours if the peer gave none in time.
func (v Verdict) Class() Class {
	if v.PeerTimeout {
		return ClassOf(v.Ours)
	}
	return ClassOf(v.Peer)
}

// Compare asks both allocators. What is wrong with our answer by itself (it is late or
// not correct, the case was modified) is never excused.
func (r *Comparer) Compare(ctx context.Context, c *alloctest.Case) Verdict {
	var v Verdict
	before := c.DeepCopy()
	v.Ours = ask(ctx, r.Ours, c, r.OurLimit)
	v.OurTime = r.decide(ctx, c)
	v.Disagreement = r.judge(c, before, v.Ours)
	v.Peer = ask(ctx, r.Peer, c, r.PeerLimit)
	v.PeerTimeout = isTimeout(v.Peer.Err)
	if v.Disagreement != "" || v.PeerTimeout {
		return v
	}
	if difference := difference(v.Ours, v.Peer); difference != "" {
		if v.Decision = clustergen.Decision(c); v.Decision == "" {
			v.Disagreement = difference
		}
	}
	return v
}

const (
	// Slow is how long a decision should not take.
	Slow = 10 * time.Millisecond
	// repeats is how often a slow decision is measured: other programs may be to blame.
	repeats = 5
)

// decide returns how long our decision takes, at best of some times if it is slow.
func (r *Comparer) decide(ctx context.Context, c *alloctest.Case) time.Duration {
	if r.Meter == nil {
		return 0
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

func ask(ctx context.Context, a alloctest.Allocator, c *alloctest.Case, limit time.Duration) alloctest.Outcome {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a(ctx, c)
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// judge says what is wrong with our answer without looking at the peer's.
func (r *Comparer) judge(c, before *alloctest.Case, o alloctest.Outcome) string {
	if !equality.Semantic.DeepEqual(before, c) {
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
