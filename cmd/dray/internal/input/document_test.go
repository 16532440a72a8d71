// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import "testing"

// A line that only begins like a marker is content, such as the first one of a certificate.
func TestMarkers(t *testing.T) {
	for line, want := range map[string]int{
		"---": 3, "---\n": 3, "--- a: b\n": 3, "---\tb": 3, "---\r\n": 3, "...": 3, "...\n": 3,
		"----": 0, "-----BEGIN CERTIFICATE-----\n": 0, "---a\n": 0, "....": 0, "--\n": 0, "--": 0, " ---\n": 0, "": 0,
	} {
		if got := markerLength([]byte(line)); got != want {
			t.Errorf("%q: %d, want %d", line, got, want)
		}
	}
}

// Only comments and directives come before the first line with content, however short that is.
func TestReadsFromFirstLineWithContent(t *testing.T) {
	for content, want := range map[string]string{
		"a\n": "a\n", "\n a\n": " a\n", "# a\n%b\n": "", "a#\n": "a#\n", "#\n%\nab\n": "ab\n", "": "",
	} {
		if got := string(fromFirst([]byte(content))); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}
