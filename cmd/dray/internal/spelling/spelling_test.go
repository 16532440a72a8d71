// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package spelling

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"gpu", "GPU", 0}, {"devcie", "device", 1}, {"numa", "nmua", 1},
		{"memory", "memry", 1}, {"kitten", "sitting", 3}, {"größe", "grösse", 2}, {"ca", "ab", 2}, {"ac", "ba", 2},
	} {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("from %q to %q: got %d, want %d", test.a, test.b, got, test.want)
		}
		if there, back := Distance(test.a, test.b), Distance(test.b, test.a); there != back {
			t.Errorf("from %q to %q it is %d, and %d back", test.a, test.b, there, back)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"architecture", "driverVersion", "numa", "productName", "product"}
	for given, want := range map[string][]string{
		"architekture": {"architecture"}, "prodcut": {"product"}, "numaNode": {"numa"}, "xyz": nil, "numa": nil, "arch": {"architecture"},
	} {
		got := Nearest(given, names)
		if len(got) == 0 {
			got = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", given, diff)
		}
	}
	if got, want := DidYouMean("numaNode", names), "did you mean numa?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
