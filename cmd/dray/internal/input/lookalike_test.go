// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is meant is named by its kind, or by its group if there is no such kind.
func TestLookAlike(t *testing.T) {
	for given, want := range map[schema.GroupKind]string{
		{Group: "resource.k8s.io", Kind: "ResourceClaims"}: "ResourceClaim.resource.k8s.io",
		{Group: "resources.k8s.io", Kind: "ResourceClaim"}: "ResourceClaim.resource.k8s.io",
		{Group: "resources.k8s.io", Kind: "Widget"}:        "group resource.k8s.io",
		{Group: "widgets.example.com", Kind: "Widget"}:     "",
	} {
		got, found := lookAlike(given)
		if got != want || found != (want != "") {
			t.Errorf("%s: %q (%t), want %q", given, got, found, want)
		}
	}
}

// Above the first line that says something there are only comments and directives, however short the line is.
func TestReadsFromFirstLineWithContent(t *testing.T) {
	for content, want := range map[string]string{
		"a\n": "a\n", "\n a\n": " a\n", "# a\n%b\n": "", "a#\n": "a#\n", "#\n%\nab\n": "ab\n", "": "",
	} {
		if got := string(fromFirst([]byte(content))); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}
