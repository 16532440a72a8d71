// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// Texts are equal on all nodes if no hint and no rejection differs, of a request or of its alternatives.
func TestTextsThatDiffer(t *testing.T) {
	same := []diagnosis.Detail{{Text: "there is no class gpu"}}
	differs := diagnosis.Add([]diagnosis.Detail{{Text: "5 left"}}, nil, "n1")
	for name, test := range map[string]struct {
		cause Cause
		want  bool
	}{
		"nothing":             {Cause{}, true},
		"a hint":              {Cause{hints: same}, true},
		"a hint that differs": {Cause{hints: differs}, false},
		"a rejection":         {Cause{hints: same, Rejections: []Rejection{{details: same}}}, true},
		"one that differs":    {Cause{Rejections: []Rejection{{details: differs}, {details: same}}}, false},
		"of an alternative":   {Cause{Alternatives: []Cause{{hints: differs}, {hints: same}}}, false},
	} {
		for _, causes := range [][]Cause{{test.cause}, {test.cause, {hints: same}}, {{hints: same}, test.cause}} {
			if got := fillTexts(causes); got != test.want {
				t.Errorf("%s, %d causes: equal on all nodes: %t, want %t", name, len(causes), got, test.want)
			}
		}
	}
}
