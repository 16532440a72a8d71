// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

const smallTopic = `
cluster
node n1
node n2
slice d/p on n1
  gpu-0
slice d/q on n1
  gpu-0
----

allocate one mentions=gpu
claim c
  request r class=gpu
----
unsatisfiable

explain
----
no gpu
`

func small(t *testing.T) Scenario {
	scenarios, err := Parse("small", smallTopic)
	if err != nil {
		t.Fatal(err)
	}
	return scenarios[0]
}

// Each of these allocators has one fault.
func TestRunFailsWrongAllocators(t *testing.T) {
	calls := 0
	for _, test := range []struct {
		name      string
		allocator Allocator
		want      string
	}{
		{"nothing", func(context.Context, *Case) Outcome { return Outcome{} }, ""},
		{"explained", func(context.Context, *Case) Outcome { return Outcome{Explanation: "no gpu"} }, ""},
		{"outcome", func(context.Context, *Case) Outcome { return Outcome{Err: errors.New("bad")} }, "error: bad"},
		{"text", func(context.Context, *Case) Outcome { return Outcome{Explanation: "no nic"} }, "does not mention gpu: explanation: no nic"},
		{"explanation", func(context.Context, *Case) Outcome { return Outcome{Explanation: "no nic"} }, "no nic"},
		{"modified input", func(_ context.Context, c *Case) Outcome {
			c.Slices[0].Spec.Devices[0].Name = "mine"
			return Outcome{}
		}, "the allocator modified its input"},
		{"another answer", func(context.Context, *Case) Outcome {
			if calls++; calls == 2 {
				return Outcome{Err: errors.New("moody")}
			}
			return Outcome{}
		}, "asked again"},
		{"order", func(_ context.Context, c *Case) Outcome {
			if c.Slices[0].Spec.Pool.Name == "q" {
				return Outcome{Err: errors.New("disorder")}
			}
			return Outcome{}
		}, "in reverse order"},
		{"number of results", func(context.Context, *Case) Outcome {
			return Outcome{Results: []resourceapi.AllocationResult{}}
		}, "malformed: 0 results for 1 claims"},
		{"panic", func(context.Context, *Case) Outcome { panic("out of ideas") }, "panic: out of ideas"},
		{"slow", func(ctx context.Context, _ *Case) Outcome {
			<-ctx.Done()
			return Outcome{Err: ctx.Err()}
		}, "deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := small(t)
			r := &runner{allocator: test.allocator, timeout: 50 * time.Millisecond}
			complaints := strings.Join(r.judge(t.Context(), &s), "\n")
			if test.want == "" && complaints != "" || !strings.Contains(complaints, test.want) {
				t.Errorf("complaints are %q, want %q", complaints, test.want)
			}
		})
	}
}

func TestMarkedScenarios(t *testing.T) {
	same := func(context.Context, *Case) Outcome { return Outcome{} }
	other := func(context.Context, *Case) Outcome { return Outcome{Err: errors.New("otherwise")} }
	for _, test := range []struct {
		name      string
		allocator Allocator
		peer      bool
		want      string
	}{
		{"peer differs", other, true, ""},
		{"peer agrees", same, true, "is marked differs=0002, but does not differ"},
		{"own differs", other, false, "outcome"},
		{"own agrees", same, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := small(t)
			s.Differs = "0002"
			r := &runner{allocator: test.allocator, peer: test.peer, timeout: time.Second}
			complaints := strings.Join(r.judge(t.Context(), &s), "\n")
			if test.want == "" && complaints != "" || !strings.Contains(complaints, test.want) {
				t.Errorf("complaints are %q, want %q", complaints, test.want)
			}
		})
	}
}

func TestRenderRuns(t *testing.T) {
	s := small(t)
	var results []resourceapi.DeviceRequestAllocationResult
	for _, device := range []string{"a8", "a9", "a10", "a11", "a12", "b1", "b2", "b3", "c01", "c02", "c03", "c04", "d"} {
		results = append(results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: "p", Device: device})
	}
	answer := Render(s.Case, Outcome{Results: []resourceapi.AllocationResult{{Devices: resourceapi.DeviceAllocationResult{Results: results}}}})
	want := `c/r -> d/p/a[8..12]
c/r -> d/p/b1
c/r -> d/p/b2
c/r -> d/p/b3
c/r -> d/p/c0[1..4]
c/r -> d/p/d
c on all-nodes
`
	if answer != want {
		t.Errorf("got\n%swant\n%s", answer, want)
	}
}

// The allocator answers with an error; only the marked scenario is left as it is.
func TestRewrite(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "small.txt")
	marked := "\n\nallocate marked differs=0002\nclaim c\n----\nunsatisfiable\n"
	if err := os.WriteFile(file, []byte(strings.TrimSpace(smallTopic)+marked), 0o600); err != nil {
		t.Fatal(err)
	}
	setRewrite(t, "true")
	Run(t, func(context.Context, *Case) Outcome {
		return Outcome{Err: errors.New("new"), Explanation: "new reason"}
	}, Peer(), Folder(folder), Timeout(time.Second))
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("unsatisfiable", "error", "no gpu", "new reason").Replace(strings.TrimSpace(smallTopic)) + marked
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// setRewrite sets the flag for the duration of a test.
func setRewrite(t *testing.T, value string) {
	before := flag.Lookup("rewrite").Value.String()
	t.Cleanup(func() {
		if err := flag.Set("rewrite", before); err != nil {
			t.Error(err)
		}
	})
	if err := flag.Set("rewrite", value); err != nil {
		t.Fatal(err)
	}
}

func TestRunReadsFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "small.txt"), []byte(smallTopic), 0o600); err != nil {
		t.Fatal(err)
	}
	setRewrite(t, "false")
	asked := 0
	Run(t, func(_ context.Context, c *Case) Outcome {
		asked++
		return Outcome{Explanation: "no gpu"}
	}, Folder(folder))
	if asked != 3 {
		t.Errorf("asked %d times, want once, again and in reverse", asked)
	}
}
