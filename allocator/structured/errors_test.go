package structured

import (
	"errors"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// The pool of node-3 has a name twice.
const onThreeNodes = `
cluster
node node-1
node node-2
node node-3
class gpu
slice gpu.example.com/node-1 on node-1
  gpu-0
  gpu-1
slice gpu.example.com/node-2 on node-2
  gpu-[0..5]
slice gpu.example.com/node-3 on node-3
  gpu-0
  gpu-0
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

// What ends the work for one node is an error of the node: the scheduler goes on with the
// next one. It counts nodes by the text, which therefore names no node and no number.
func TestErrorsOfTheNode(t *testing.T) {
	scenarios, err := alloctest.Parse("errors.txt", onThreeNodes)
	if err != nil {
		t.Fatal(err)
	}
	c := scenarios[0].Case
	const spent, invalid = "undecided: the search used up its step budget", "invalid resource pools were found"
	for _, test := range []struct {
		budget int64
		want   [3]string
	}{
		{1, [3]string{spent, spent, invalid}},
		{allocator.DefaultBudget, [3]string{"", "", invalid}},
	} {
		a, err := NewAllocator(t.Context(), Features(c.Features), AllocatedState{}, classList(c.Classes), c.Slices, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.(*facade).core = allocator.New(allocator.Options{Features: c.Features, Budget: test.budget})
		for i, want := range test.want {
			results, err := a.Allocate(t.Context(), c.Nodes[i], c.Claims)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != want || (results == nil) != (want != "") {
				t.Errorf("budget %d, node %d: %d results, error %q, want %q", test.budget, i+1, len(results), text, want)
			}
			if err != nil && !errors.Is(err, ErrFailedAllocationOnNode) || errors.Is(err, ErrUndecided) != (want == spent) {
				t.Errorf("budget %d, node %d: error %v has the wrong kind", test.budget, i+1, err)
			}
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
