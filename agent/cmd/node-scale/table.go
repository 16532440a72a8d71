// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// table returns a Markdown table with a row per figure and a column per simulator. With two
// simulators, another column has their ratio.
func table(s *settings, names []string, all []figures) string {
	rows := []struct {
		what  string
		value func(figures) float64
	}{
		{fmt.Sprintf("nodes registered per second (%d nodes, with lease and ResourceSlice)", s.nodes), func(f figures) float64 { return f.nodesPerSecond }},
		{"requests per node until all are registered", func(f figures) float64 { return f.registration }},
		{"memory, KiB per node", func(f figures) float64 { return f.memory }},
		{"requests per node and minute, idle", func(f figures) float64 { return f.requests }},
		{fmt.Sprintf("pods per second until they run (%d, bound at once)", s.pods), func(f figures) float64 { return f.podsRun }},
		{"the same, until they are gone again", func(f figures) float64 { return f.podsPerSecond }},
		{fmt.Sprintf("pods with a claim per second until they run (%d, through dray-scheduler)", s.claims), func(f figures) float64 { return f.claimPodsRun }},
		{"the same, until they and their claims are gone", func(f figures) float64 { return f.claimPods }},
	}
	header := append([]string{""}, names...)
	if len(all) == 2 {
		header = append(header, "ratio")
	}
	var out strings.Builder
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	fmt.Fprintf(&out, "|%s\n", strings.Repeat("---|", len(header)))
	for _, row := range rows {
		cells := []string{row.what}
		for _, found := range all {
			cells = append(cells, fmt.Sprintf("%.1f", row.value(found)))
		}
		if len(all) == 2 {
			cells = append(cells, fmt.Sprintf("%.2f", row.value(all[0])/row.value(all[1])))
		}
		line(cells)
	}
	return out.String()
}
