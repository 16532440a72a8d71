// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

func header(b *strings.Builder, cells ...string) {
	row(b, cells...)
	b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// number has three digits that count, or all before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func ratio(a, b float64) string {
	if b == 0 {
		return ""
	}
	return number(a/b) + "×"
}

func percent(a, b float64) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*a/b)
}

func verdict(met bool) string {
	if met {
		return "yes"
	}
	return "**no**"
}
