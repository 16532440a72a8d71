package allocator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
)

// A time limit ends what is not known yet, and is no cancellation.
func TestTimeLimit(t *testing.T) {
	ledger := cluster(gpus("a", 8, "H100"), gpus("b", 8, "H100"))
	for _, c := range []struct {
		limit   time.Duration
		expired bool
	}{{0, false}, {time.Hour, false}, {time.Nanosecond, true}} {
		problem := compile(allocator.Options{TimeLimit: c.limit}, claim("c", 4))
		for _, name := range []string{"a", "b"} {
			found, err := problem.Feasible(context.Background(), ledger.Snapshot(), ledger.Usage(), node(name))
			if errors.Is(err, context.DeadlineExceeded) != c.expired {
				t.Errorf("limit %v, node %s: %v, %v", c.limit, name, found.Verdict(), err)
			}
			outcome, err := problem.Allocate(context.Background(), ledger.Snapshot(), ledger.Usage(), node(name))
			if errors.Is(err, context.DeadlineExceeded) != c.expired {
				t.Errorf("limit %v, node %s: %v, %v", c.limit, name, outcome, err)
			}
		}
		answers, err := problem.Evaluate(context.Background(), ledger.Snapshot(), ledger.Usage(), []*corev1.Node{node("a"), node("b")}, 1)
		if err != nil {
			t.Fatalf("limit %v: all of the evaluation ended: %v", c.limit, err)
		}
		for i := range answers.Len() {
			if _, err := answers.Outcome(i); errors.Is(err, context.DeadlineExceeded) != c.expired {
				t.Errorf("limit %v, node %d evaluated: %v", c.limit, i, err)
			}
		}
	}
}

// The caller's own deadline holds as well as the limit.
func TestTimeLimitKeepsDeadline(t *testing.T) {
	ledger := cluster(gpus("a", 8, "H100"))
	problem := compile(allocator.Options{TimeLimit: time.Hour}, claim("c", 4))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := problem.Feasible(ctx, ledger.Snapshot(), ledger.Usage(), node("a")); !errors.Is(err, cause) {
		t.Errorf("%v, expected the cause of the cancellation", err)
	}
}
