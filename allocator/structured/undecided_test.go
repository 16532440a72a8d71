package structured

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

const twoOfTwo = `
cluster
node node-1
class gpu
slice gpu.example.com/node-1 on node-1
  gpu-0
  gpu-1
----

allocate pair node=node-1
claim pair
  request first class=gpu
  request second class=gpu
----
pair/first -> gpu.example.com/node-1/gpu-0
pair/second -> gpu.example.com/node-1/gpu-1
pair on node-1
`

// A search that spends its budget is an error of the node: the scheduler goes on with the
// next one.
func TestSpentBudgetIsAnErrorOfTheNode(t *testing.T) {
	scenarios, err := alloctest.Parse("undecided.txt", twoOfTwo)
	if err != nil {
		t.Fatal(err)
	}
	c := scenarios[0].Case
	for _, budget := range []int64{1, allocator.DefaultBudget} {
		a, err := NewAllocator(t.Context(), Features(c.Features), AllocatedState{}, classList(c.Classes), c.Slices, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.(*facade).core = allocator.New(allocator.Options{Features: c.Features, Budget: budget})
		results, err := a.Allocate(t.Context(), c.Nodes[0], c.Claims)
		spent := errors.Is(err, ErrFailedAllocationOnNode) && strings.Contains(err.Error(), "undecided after")
		if spent != (budget == 1) || (results == nil) != spent {
			t.Errorf("budget %d: %d results, %v", budget, len(results), err)
		}
	}
}

type classList []*resourceapi.DeviceClass

func (l classList) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classList) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no class %s", name)
}
