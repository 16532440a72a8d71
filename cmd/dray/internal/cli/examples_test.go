// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Files in testdata/examples are named after an example and hold commands, without the
// -f that reads the example, and what they print.
func TestExamples(t *testing.T) {
	files, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	atRepository(t)
	datadriven.Walk(t, files, func(t *testing.T, path string) {
		example := filepath.Join("examples", filepath.Base(path))
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arguments := append(strings.Fields(d.Input), "-f", example)
			output := run("", arguments...)
			if !strings.Contains(d.Input, " -o ") {
				fits(t, output)
			}
			return output
		})
	})
}

// The pods that simulate plan places on the nodes there are, are those that allocate places. With more nodes, more pods have a place.
func TestPlanLikeAllocate(t *testing.T) {
	atRepository(t)
	examples, err := filepath.Glob("examples/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	summary := regexp.MustCompile(`(\d+) of \d+ pods? placed\.`)
	rows, more := 0, 0
	for _, example := range examples {
		said := summary.FindStringSubmatch(run("", "dray", "allocate", "-f", filepath.Dir(example)))
		if said == nil {
			continue // claims without pods
		}
		allocated, err := strconv.Atoi(said[1])
		if err != nil {
			t.Fatal(err)
		}
		out := run("", "dray", "simulate", "plan", "--no-headers", "-f", filepath.Dir(example))
		for row := range strings.Lines(out) {
			var like string
			var nodes, placed, unplaced, undecided int
			if n, _ := fmt.Sscan(row, &like, &nodes, &placed, &unplaced, &undecided); n < 5 {
				continue // what is not looked at
			}
			if rows++; nodes > 0 {
				more++
			}
			if (nodes == 0) != (placed == allocated) || placed < allocated {
				t.Errorf("%s: %q, and allocate places %d", example, row, allocated)
			}
		}
	}
	if rows < 100 || more < 10 {
		t.Errorf("%d rows, %d with more nodes", rows, more)
	}
}

// A pod that has no place may have one after a claim that it shares was allocated for another pod. On the large node, all devices cannot be had,
// as one is in use. On the small one, they can, and the large node reaches them, too.
func TestPlanAsksAgainWhereClaimsAreShared(t *testing.T) {
	pod := func(name string, priority, cpu int) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {priority: %d, containers: [{name: main, image: x, resources: {requests: {cpu: %d}}}], resourceClaims: [{name: c, resourceClaimName: all}]}}\n", name, priority, cpu)
	}
	input := `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 10}}}
---
{apiVersion: v1, kind: Node, metadata: {name: small}, status: {allocatable: {cpu: 1, pods: 10}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec: {driver: gpu.example.com, allNodes: true, pool: {name: fabric, generation: 1, resourceSliceCount: 1}, devices: [{name: far}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec: {driver: gpu.example.com, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0}, {name: gpu-1}]}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: all}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}]}}}
` + holding("runs", 0, "", "") + pod("first", 3, 2) + pod("second", 2, 1) + pod("third", 1, 2)
	for command, want := range map[string]string{"allocate": "2 of 3 pods placed.", "simulate plan --like small": "small  0      2       1         0\n"} {
		if out := run(input, append(append([]string{"dray"}, strings.Fields(command)...), "-f", "-")...); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", command, want, out)
		}
	}
}

// Files in testdata/input hold manifests, read from standard input, and what
// dray does with them. The command's arguments are those of dray.
func TestInput(t *testing.T) {
	datadriven.Walk(t, "testdata/input", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arguments := []string{"dray", d.Cmd}
			for _, argument := range d.CmdArgs {
				arguments = append(arguments, argument.String())
			}
			return run(d.Input, append(arguments, "-f", "-")...)
		})
	})
}
