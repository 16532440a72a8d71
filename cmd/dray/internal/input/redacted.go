// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// maxRedacted is how many fields of an object may be left out because they do not decode.
const maxRedacted = 16

// decodeRest decodes a Node or Pod without the fields that do not decode, because a tool has
// redacted them in a dump. In other kinds, each field may affect allocation, so all must decode.
func decodeRest(raw []byte, object runtime.Object, decodeErr error) (leftOut []error, err error) {
	switch object.(type) {
	case *corev1.Node, *corev1.Pod:
	default:
		return nil, decodeErr
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, decodeErr
	}
	for range maxRedacted {
		var bad *fieldError
		if !errors.As(locateIn(reflect.TypeOf(object).Elem(), value, nil), &bad) || !remove(value, bad.at) {
			return leftOut, decodeErr
		}
		leftOut = append(leftOut, fmt.Errorf("%w: left out", bad))
		rest, err := json.Marshal(value)
		if err != nil {
			return nil, decodeErr
		}
		reflect.ValueOf(object).Elem().SetZero()
		unknown, err := kjson.UnmarshalStrict(rest, object)
		if err == nil {
			return append(leftOut, unknown...), nil
		}
	}
	return leftOut, decodeErr
}

// remove deletes the value at a path of names and indexes.
func remove(value any, steps location) bool {
	for i, step := range steps {
		last := i == len(steps)-1
		switch container := value.(type) {
		case map[string]any:
			name, isName := step.(string)
			if key, isKey := step.(mapKey); isKey {
				name, isName = string(key), true
			}
			if !isName {
				return false
			}
			if last {
				delete(container, name)
				return true
			}
			value = container[name]
		case []any:
			at, isPosition := step.(int)
			if !isPosition || at >= len(container) {
				return false
			}
			if last {
				container[at] = nil
				return true
			}
			value = container[at]
		default:
			return false
		}
	}
	return false
}
