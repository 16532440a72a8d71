// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// parseSlice reads: slice driver/pool [name=] [generation=] [of=] clauses, with
// counter sets and devices below.
func parseSlice(b block) (*resourceapi.ResourceSlice, error) {
	w := b.words()
	w.next()
	pool, err := w.operand("slice")
	if err != nil {
		return nil, err
	}
	slice := &resourceapi.ResourceSlice{}
	err = sliceHeader(slice, pool, w)
	if err == nil {
		err = sliceBody(slice, b)
	}
	return slice, within("slice "+pool, err)
}

func sliceHeader(slice *resourceapi.ResourceSlice, pool string, w *words) error {
	spec := &slice.Spec
	var found bool
	spec.Driver, spec.Pool.Name, found = strings.Cut(pool, "/")
	if !found {
		return fmt.Errorf("expected driver/pool")
	}
	slice.Name = defaultSliceName(spec)
	spec.Pool.Generation, spec.Pool.ResourceSliceCount = 1, 1
	if err := w.pairs(func(key, value string) error { return sliceField(slice, key, value) }); err != nil {
		return err
	}
	return lineClauses(w, func(clause string, w *words) error { return sliceClause(spec, clause, w) })
}

// defaultSliceName is the name of a slice without name=. Pool names may have slashes, object names may not.
func defaultSliceName(spec *resourceapi.ResourceSliceSpec) string {
	return strings.ReplaceAll(spec.Pool.Name, "/", "-") + "-" + spec.Driver
}

func sliceField(slice *resourceapi.ResourceSlice, key, value string) (err error) {
	switch key {
	case "name":
		slice.Name, err = unquote(value)
	case "generation":
		slice.Spec.Pool.Generation, err = parseInt(value)
	case "of":
		slice.Spec.Pool.ResourceSliceCount, err = parseInt(value)
	default:
		err = fmt.Errorf("unknown field")
	}
	return err
}

func sliceClause(spec *resourceapi.ResourceSliceSpec, clause string, w *words) error {
	switch clause {
	case "on":
		p, err := parsePlace(w)
		p.ofSlice(spec)
		return err
	case "skips":
		operations, err := commaList[resourceapi.SkipNodeOperation](w.next())
		spec.SkipNodeOperations = operations
		return within(clause, err)
	}
	return fmt.Errorf("unknown clause %q", clause)
}

func sliceBody(slice *resourceapi.ResourceSlice, b block) error {
	children, err := b.children()
	if err != nil {
		return err
	}
	for _, child := range children {
		if child.words().next() == "counters" {
			err = addCounterSet(&slice.Spec, child)
		} else {
			err = addDevices(&slice.Spec, child)
		}
		if err != nil {
			return at(child.line, err)
		}
	}
	return nil
}

func addCounterSet(spec *resourceapi.ResourceSliceSpec, b block) error {
	w := b.words()
	w.next()
	name, err := w.operand("counters")
	if err != nil {
		return err
	}
	set := resourceapi.CounterSet{Name: name}
	set.Counters, err = parseCounters(w)
	spec.SharedCounters = append(spec.SharedCounters, set)
	return within("counters "+name, err)
}

func parseCounters(w *words) (map[string]resourceapi.Counter, error) {
	counters := make(map[string]resourceapi.Counter)
	err := w.some(func(key, value string) error {
		quantity, err := parseQuantity(value)
		if err == nil {
			counters[key] = resourceapi.Counter{Value: *quantity}
		}
		return err
	})
	return counters, err
}

func writeCounters(counters map[string]resourceapi.Counter) string {
	var b strings.Builder
	sorted(counters, func(name string, counter resourceapi.Counter) {
		b.WriteString(" " + name + "=" + counter.Value.String())
	})
	return b.String()
}

func writeSlice(slice *resourceapi.ResourceSlice) []string {
	spec := &slice.Spec
	header := "slice " + quote(spec.Driver+"/"+spec.Pool.Name)
	if slice.Name != defaultSliceName(spec) {
		header += " name=" + quote(slice.Name)
	}
	if spec.Pool.Generation != 1 {
		header += " generation=" + formatInt(spec.Pool.Generation)
	}
	if spec.Pool.ResourceSliceCount != 1 {
		header += " of=" + formatInt(spec.Pool.ResourceSliceCount)
	}
	header += placeOf(spec.NodeName, spec.AllNodes, spec.PerDeviceNodeSelection, spec.NodeSelector).String()
	if len(spec.SkipNodeOperations) > 0 {
		header += " skips " + quoteAll(spec.SkipNodeOperations)
	}
	var lines []string
	for _, set := range spec.SharedCounters {
		lines = append(lines, "counters "+quote(set.Name)+writeCounters(set.Counters))
	}
	for i := range spec.Devices {
		lines = append(lines, writeDevice(&spec.Devices[i])...)
	}
	return append([]string{header}, indented(lines)...)
}
