// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package expansion

import "testing"

func TestExpand(t *testing.T) {
	variables := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}
	for text, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "1",
		"x$(A)y$(A)z":   "x1y1z",
		"$(B)":          "$(A)", // values are not expanded again
		"$(EMPTY).":     ".",
		"$(UNKNOWN)":    "$(UNKNOWN)",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$1",
		"$$$$(A)":       "$$(A)",
		"$A ${A} $":     "$A ${A} $",
		"$(A":           "$(A",
		"$(A $(A)":      "$(A $(A)",
		"$((A)":         "$((A)",
		"$()":           "$()",
		"a$$":           "a$",
		"$(UNKNOWN)$$":  "$(UNKNOWN)$",
		"100% $(A)€ ok": "100% 1€ ok",
	} {
		if got := Expand(text, variables); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
