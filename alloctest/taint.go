// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// parseTaint reads key[=value]:Effect.
func parseTaint(word string) (taint resourceapi.DeviceTaint, err error) {
	keyValue, effect, found := cutLast(word, ":")
	if !found {
		return taint, errors.New("expected key=value:Effect or key:Effect")
	}
	taint.Effect = resourceapi.DeviceTaintEffect(effect)
	key, value, _ := strings.Cut(keyValue, "=")
	taint.Key = key
	taint.Value, err = unquote(value)
	return taint, err
}

func writeTaint(taint resourceapi.DeviceTaint) string {
	if taint.Value == "" {
		return taint.Key + ":" + string(taint.Effect)
	}
	return taint.Key + "=" + quote(taint.Value) + ":" + string(taint.Effect)
}

// parseToleration reads key[=value][:Effect] or *[:Effect], then [for=seconds].
// Without a value any value is tolerated, with * any key.
func parseToleration(w *words) (t resourceapi.DeviceToleration, err error) {
	word := w.next()
	if word == "" {
		return t, errors.New("operand missing")
	}
	if keyValue, effect, found := cutLast(word, ":"); found {
		word, t.Effect = keyValue, resourceapi.DeviceTaintEffect(effect)
	}
	key, value, hasValue := strings.Cut(word, "=")
	t.Operator = resourceapi.DeviceTolerationOpExists
	if hasValue {
		t.Operator = resourceapi.DeviceTolerationOpEqual
	}
	if key != anyKey {
		t.Key = key
	}
	if t.Value, err = unquote(value); err != nil {
		return t, err
	}
	if seconds, ok := strings.CutPrefix(w.peek(), "for="); ok {
		w.next()
		n, err := parseInt(seconds)
		t.TolerationSeconds = &n
		return t, within("for", err)
	}
	return t, nil
}

const anyKey = "*"

func writeToleration(t resourceapi.DeviceToleration) string {
	text := t.Key
	if text == "" {
		text = anyKey
	}
	if t.Operator == resourceapi.DeviceTolerationOpEqual {
		text += "="
		if t.Value != "" {
			text += quote(t.Value)
		}
	}
	if t.Effect != "" {
		text += ":" + string(t.Effect)
	}
	if t.TolerationSeconds != nil {
		text += " for=" + formatInt(*t.TolerationSeconds)
	}
	return text
}

// cutLast is strings.Cut at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}
