// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that a misspelt one is meant to be.
package spelling

import (
	"cmp"
	"slices"
	"strings"
)

// Distance returns the edit distance of two texts, regardless of case: the number of letters to
// insert, remove, replace, or swap with their neighbour.
func Distance(a, b string) int {
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			replaced := rows[i-1][j-1]
			if x[i-1] != y[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}

// longest is the length above which names are not compared. Names in the API are not longer.
const longest = 256

// Close reports whether one text is likely a misspelling of the other: at most a third of its
// letters differ, and at most three.
func Close(a, b string) bool {
	if len(a) > longest || len(b) > longest {
		return false
	}
	return Distance(a, b) <= min(3, max(len(a), len(b))/3)
}

// Nearest returns the names that are close to the given one, the closest first. A name that
// contains the given one, or is contained in it, also counts as close.
func Nearest(given string, names []string) []string {
	const few = 3
	var near []string
	for _, name := range names {
		if name != given && !slices.Contains(near, name) && (Close(given, name) || contains(given, name)) {
			near = append(near, name)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(Distance(given, a), Distance(given, b)) })
	return near[:min(few, len(near))]
}

func contains(a, b string) bool {
	const least = 4
	a, b = strings.ToLower(a), strings.ToLower(b)
	return len(a) >= least && len(b) >= least && (strings.Contains(a, b) || strings.Contains(b, a))
}

// DidYouMean returns a phrase with the nearest names, or an empty string if none is near.
func DidYouMean(given string, names []string) string {
	near := Nearest(given, names)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}
