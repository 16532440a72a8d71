// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// threeNodes are node a, on which two pods have all GPUs, and the nodes c and b, which are free. A pod waits for two GPUs. All claims want
// GPUs with the same value of an attribute. One pair of a and one of b have it.
var (
	threeNodes = sameBoard(nodeWithGPUs + likeA("c", "gpu-3}", "gpu-4}") + likeA("b") + twoPods)
	oneNode    = sameBoard(nodeWithGPUs + twoPods) // only a
	twoPods    = holding("late", 2, owned+`, annotations: {dray-project.github.io/expected-end: "2026-11-25T13:00:00Z"}`, "") + waitsFor("waits", 2, "  priority: 5\n")
)

func sameBoard(manifests string) string {
	return strings.NewReplacer(
		"devices: {requests", "devices: {constraints: [{matchAttribute: gpu.example.com/board}], requests",
		"{name: gpu-0}", "{name: gpu-0, attributes: {board: {int: 1}}}", "{name: gpu-1}", "{name: gpu-1, attributes: {board: {int: 2}}}",
		"{name: gpu-2}", "{name: gpu-2, attributes: {board: {int: 3}}}", "{name: gpu-3}", "{name: gpu-3, attributes: {board: {int: 3}}}", "{name: gpu-4}", "{name: gpu-4, attributes: {board: {int: 4}}}",
	).Replace(manifests)
}

// likeA is a node like a, with replacements.
func likeA(name string, replace ...string) string {
	replace = append(replace, "name: a", "name: "+name, "nodeName: a", "nodeName: "+name)
	return strings.NewReplacer(replace...).Replace(nodeWithGPUs[strings.Index(nodeWithGPUs, "---"):])
}

// A search that is given up is not a no: neither by the exit status nor by what is printed. With a larger budget, the answer is yes.
func TestUndecidedIsNotNo(t *testing.T) {
	for _, test := range []struct{ input, command, want string }{
		{threeNodes, "allocate", "not be decided"},
		{gangManifest(2, 3, 3, false), "allocate", "not decided: more may fit"},
		{threeNodes, "explain", "undecided after"},
		{threeNodes, "explain waits -o json", `"undecided": 3`},
		{threeNodes, "explain waits --patch", "it is not known whether a small change of a claim helps"},
		{threeNodes, "simulate plan --like a", "a     0      0       0         1\n"},
		{threeNodes, "simulate plan --like a --any", "0 pods without a place, 1 undecided"},
		{threeNodes, "simulate drain a", "it is not known whether a can go: 1 pod undecided"},
		{threeNodes, "simulate victims waits", "it is not known whether default/waits fits if others go: 3 nodes undecided"},
		{oneNode, "simulate victims waits", "it is not known whether default/waits fits if others go: 1 node undecided"},
		{threeNodes, "simulate victims waits -o jsonpath={.undecidedNodes}", "3"},
		{gangManifest(2, 3, 3, false), "simulate when --now 2026-11-25T12:00:00Z", "it is not known whether podgroup/default/gang has a place after the last of the ends"},
		{gangManifest(2, 3, 3, false), "simulate repack --for podgroup/gang", "no way was found that costs less"},
	} {
		arguments := append([]string{"dray"}, strings.Fields(test.command)...)
		out, status := runStatus(test.input, append(arguments, "-f", "-", "--budget", "1")...)
		if status != cli.ExitUndecided || !strings.Contains(out, test.want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", test.command, status, cli.ExitUndecided, test.want, out)
		}
		if out, status := runStatus(test.input, append(arguments, "-f", "-")...); status != cli.ExitOK {
			t.Errorf("%s with the usual budget: status %d\n%s", test.command, status, out)
		}
	}
	out, status := runStatus(threeNodes, "dray", "simulate", "when", "--now", "2026-11-25T12:00:00Z", "-f", "-", "--budget", "1")
	if status != cli.ExitOK || !strings.Contains(out, "2026-11-25T13:00:00Z or earlier") {
		t.Errorf("status %d, want that the pod starts at 13:00 or earlier in\n%s", status, out)
	}
}
