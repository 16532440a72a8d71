package allocator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// Undoing a level restores everything written since, in any interleaving of writes,
// levels and undos.
func TestUndoRestoresTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr trail
		type variables struct {
			Counts      [3]int32
			Amounts     [3]amount.Amount
			Groups      [3]pools.GroupState
			Constraints [3]constraintState
		}
		var now variables
		type saved struct {
			mark mark
			was  variables
		}
		var levels []saved
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "variable")
			v := rapid.Int32Range(0, 9).Draw(t, "value")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				tr.counts.set(&now.Counts[i], v)
			case 1:
				tr.amounts.set(&now.Amounts[i], now.Amounts[i].Add(one))
			case 2:
				tr.groups.set(&now.Groups[i], now.Groups[i].Add([]string{string('a' + v)}))
			case 3:
				tr.constraints.set(&now.Constraints[i], constraintState{devices: int(v)})
			case 4:
				levels = append(levels, saved{tr.mark(), now})
			case 5:
				if len(levels) == 0 {
					continue
				}
				last := levels[len(levels)-1]
				levels = levels[:len(levels)-1]
				tr.undo(last.mark)
				if diff := cmp.Diff(last.was, now, cmp.AllowUnexported(amount.Amount{}, pools.GroupState{}, constraintState{})); diff != "" {
					t.Fatalf("after undo (-was +is):\n%s", diff)
				}
			}
		}
	})
}

var one = amount.FromQuantity(resource.MustParse("1"))
