// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Devices returns allocated devices as "pool/device", grouped by pool: "node-1/gpu-{0..3}".
// Parentheses have details, such as a consumed capacity.
func Devices(results []resourceapi.DeviceRequestAllocationResult) string {
	type group struct{ pool, remark string }
	var order []group
	names := make(map[group][]string)
	for i := range results {
		g := group{results[i].Pool, remark(&results[i])}
		if names[g] == nil {
			order = append(order, g)
		}
		names[g] = append(names[g], results[i].Device)
	}
	parts := make([]string, len(order))
	for i, g := range order {
		parts[i] = g.pool + "/" + Compact(names[g]) + g.remark
	}
	return strings.Join(parts, ", ")
}

// deviceRows returns a row per allocated device: "pool/device", with details in parentheses.
func deviceRows(results []resourceapi.DeviceRequestAllocationResult, driver bool) []string {
	rows := make([]string, len(results))
	for i := range results {
		rows[i] = results[i].Pool + "/" + results[i].Device + remark(&results[i])
		if driver {
			rows[i] = results[i].Driver + "/" + rows[i]
		}
	}
	return rows
}

func remark(result *resourceapi.DeviceRequestAllocationResult) string {
	var remarks []string
	if ptr.Deref(result.AdminAccess, false) {
		remarks = append(remarks, "admin access")
	}
	for _, name := range slices.Sorted(maps.Keys(result.ConsumedCapacity)) {
		quantity := result.ConsumedCapacity[name]
		remarks = append(remarks, string(name)+" "+quantity.String())
	}
	if len(remarks) == 0 {
		return ""
	}
	return " (" + strings.Join(remarks, ", ") + ")"
}

// Compact joins names. Names that differ only in a number at the end are folded: "gpu-0", "gpu-1",
// "gpu-2", "gpu-5" become "gpu-{0..2,5}".
func Compact(names []string) string {
	var order []string
	numbers := make(map[string][]string)
	for _, name := range names {
		stem, number := splitNumber(name)
		if numbers[stem] == nil {
			order = append(order, stem)
		}
		numbers[stem] = append(numbers[stem], number)
	}
	parts := make([]string, len(order))
	for i, stem := range order {
		parts[i] = stem + braces(numbers[stem])
	}
	return strings.Join(parts, ",")
}

func splitNumber(name string) (stem, number string) {
	stem = strings.TrimRight(name, "0123456789")
	return stem, name[len(stem):]
}

func braces(numbers []string) string {
	if len(numbers) == 1 {
		return numbers[0]
	}
	slices.SortStableFunc(numbers, func(a, b string) int { return cmp.Compare(value(a), value(b)) })
	var ranges []string
	for start := 0; start < len(numbers); {
		end := start
		for end+1 < len(numbers) && follows(numbers[end], numbers[end+1]) {
			end++
		}
		switch end - start {
		case 0:
			ranges = append(ranges, numbers[start])
		case 1:
			ranges = append(ranges, numbers[start], numbers[end])
		default:
			ranges = append(ranges, numbers[start]+".."+numbers[end])
		}
		start = end + 1
	}
	return "{" + strings.Join(ranges, ",") + "}"
}

// follows reports whether b is the next number after a. It is false if leading zeros would make a
// range ambiguous.
func follows(a, b string) bool {
	return value(a) >= 0 && value(a)+1 == value(b) && (len(a) == len(b) || (a[0] != '0' && b[0] != '0') || a == "0")
}

// value returns the number, or -1 if there is none or it is too long.
func value(number string) int {
	n, err := strconv.Atoi(number)
	if err != nil {
		return -1
	}
	return n
}
