// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var version = regexp.MustCompile(`^v\d+\.\d+\.\d+([-+].*)?$`)

// parseAttribute infers the type of a value: 7 is an int, true a bool, v1.2.3 a version. Anything else, and all
// that is quoted, is a string; [a,b] is a list.
func parseAttribute(word string) (resourceapi.DeviceAttribute, error) {
	if !strings.HasPrefix(word, "[") {
		return parseScalar(word)
	}
	if !strings.HasSuffix(word, "]") {
		return resourceapi.DeviceAttribute{}, fmt.Errorf("list %s has no closing bracket", word)
	}
	var list resourceapi.DeviceAttribute
	for _, item := range commaItems(word[1 : len(word)-1]) {
		scalar, err := parseScalar(item)
		if err != nil {
			return list, err
		}
		appendScalar(&list, scalar)
	}
	if kinds(list) != 1 {
		return list, fmt.Errorf("list %s mixes types", word)
	}
	return list, nil
}

func parseScalar(word string) (a resourceapi.DeviceAttribute, err error) {
	if word == "" {
		return a, errors.New("value missing")
	}
	switch n, notInt := strconv.ParseInt(word, 10, 64); {
	case notInt == nil:
		a.IntValue = &n
	case word == "true" || word == "false":
		a.BoolValue = new(word == "true")
	case version.MatchString(word):
		a.VersionValue = new(word[1:])
	default:
		var text string
		text, err = unquote(word)
		a.StringValue = &text
	}
	return a, err
}

func appendScalar(list *resourceapi.DeviceAttribute, scalar resourceapi.DeviceAttribute) {
	switch {
	case scalar.IntValue != nil:
		list.IntValues = append(list.IntValues, *scalar.IntValue)
	case scalar.BoolValue != nil:
		list.BoolValues = append(list.BoolValues, *scalar.BoolValue)
	case scalar.VersionValue != nil:
		list.VersionValues = append(list.VersionValues, *scalar.VersionValue)
	case scalar.StringValue != nil:
		list.StringValues = append(list.StringValues, *scalar.StringValue)
	}
}

func kinds(list resourceapi.DeviceAttribute) int {
	n := 0
	for _, length := range []int{len(list.IntValues), len(list.BoolValues), len(list.VersionValues), len(list.StringValues)} {
		n += min(length, 1)
	}
	return n
}

func writeAttribute(a resourceapi.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case a.VersionValue != nil:
		return "v" + *a.VersionValue
	case a.StringValue != nil:
		return quoteString(*a.StringValue)
	}
	var items []string
	for _, v := range a.IntValues {
		items = append(items, strconv.FormatInt(v, 10))
	}
	for _, v := range a.BoolValues {
		items = append(items, strconv.FormatBool(v))
	}
	for _, v := range a.VersionValues {
		items = append(items, "v"+v)
	}
	for _, v := range a.StringValues {
		items = append(items, quoteString(v))
	}
	return "[" + strings.Join(items, ",") + "]"
}

// quoteString quotes strings that would otherwise be parsed as another type.
func quoteString(text string) string {
	if a, err := parseScalar(text); err != nil || a.StringValue == nil {
		return strconv.Quote(text)
	}
	return quote(text)
}

func parseQuantity(word string) (*resource.Quantity, error) {
	q, err := resource.ParseQuantity(word)
	if err != nil {
		return nil, fmt.Errorf("%q is not a quantity", word)
	}
	return &q, nil
}

// sorted iterates over a map in the order of its keys.
func sorted[K cmp.Ordered, V any](m map[K]V, each func(K, V)) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		each(key, m[key])
	}
}

func parseInt(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", value)
	}
	return n, nil
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
