// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// These are the outcomes without devices.
const (
	unsatisfiable = "unsatisfiable"
	failed        = "error"
	failedOnNode  = "error on this node"
	nothing       = "nothing to allocate"
)

// Render writes an outcome as scenario files expect it: one line per device, then for each claim one line with
// the nodes on which it can be used, and one per config. Share IDs, error texts and explanations are left out,
// as allocators may differ in them. So equal texts mean equal outcomes.
func Render(c *Case, o Outcome) string {
	switch {
	case o.Err != nil && o.NodeOnly:
		return failedOnNode + "\n"
	case o.Err != nil:
		return failed + "\n"
	case o.Results == nil:
		return unsatisfiable + "\n"
	case len(o.Results) != len(c.Claims):
		return fmt.Sprintf("malformed: %d results for %d claims\n", len(o.Results), len(c.Claims))
	case len(o.Results) == 0:
		return nothing + "\n"
	}
	var b strings.Builder
	for i, claim := range c.Claims {
		renderClaim(&b, claim.Name, &o.Results[i])
	}
	return b.String()
}

func renderClaim(b *strings.Builder, claim string, allocation *resourceapi.AllocationResult) {
	for _, line := range renderDevices(claim, allocation.Devices.Results) {
		b.WriteString(line + "\n")
	}
	reach := place{selector: allocation.NodeSelector, all: allocation.NodeSelector == nil}
	if node := soleNode(allocation.NodeSelector); node != "" {
		reach = place{node: node}
	}
	b.WriteString(quote(claim) + reach.String() + "\n")
	for _, config := range allocation.Devices.Config {
		b.WriteString(quote(claim) + " " + configSource(config.Source) + writeConfig(config.Requests, config.DeviceConfiguration) + "\n")
	}
}

// numbered matches a device line whose device name ends with a number.
var numbered = regexp.MustCompile(`^(\S+ -> \S*?)(0|[1-9][0-9]{0,8})((?: .*)?)$`)

// longRun is how many consecutive devices are written as one line, such as gpu-[0..7].
const longRun = 4

func renderDevices(claim string, results []resourceapi.DeviceRequestAllocationResult) []string {
	var lines []string
	for i := range results {
		lines = append(lines, quote(claim+"/"+results[i].Request)+writeResult(&results[i], false))
	}
	var short []string
	for len(lines) > 0 {
		line, n := run(lines)
		short, lines = append(short, line), lines[n:]
	}
	return short
}

// run returns how many lines from the first on have consecutive numbers, and one line for all.
func run(lines []string) (line string, n int) {
	first := numbered.FindStringSubmatch(lines[0])
	if first == nil {
		return lines[0], 1
	}
	start, _ := strconv.Atoi(first[2])
	for n = 1; n < len(lines) && lines[n] == first[1]+strconv.Itoa(start+n)+first[3]; n++ {
	}
	if n < longRun {
		return lines[0], 1
	}
	return fmt.Sprintf("%s[%d..%d]%s", first[1], start, start+n-1, first[3]), n
}

func configSource(source resourceapi.AllocationConfigSource) string {
	switch source {
	case resourceapi.AllocationConfigSourceClass:
		return "class-config"
	case resourceapi.AllocationConfigSourceClaim:
		return "config"
	}
	return string(source) + "-config"
}
