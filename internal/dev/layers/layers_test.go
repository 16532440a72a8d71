// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/internal/dev/typed"
)

// ordered are the packages of which the comment has an order, with the uses of files above that there may be.
var ordered = map[string][]Arrow{
	"simulate": {
		// A node, and a State, hold what only files above know the inside of.
		{"world", "claim"}, {"world", "any"}, {"world", "template"}, {"world", "kind"}, {"world", "state"}, {"any", "template"},
		// Gang asks together, which takes the domains of a gang.
		{"together", "gang"},
		// What was found out last is remembered where it is forgotten.
		{"world", "fit"}, {"world", "drain"}, {"kind", "needs"}, {"sim", "policy"},
	},
}

func TestOrder(t *testing.T) {
	for folder, allowed := range ordered {
		packages, err := typed.Load(t.Context(), "../../..", func(string, string) bool { return true }, "./"+folder)
		if err != nil {
			t.Fatal(err)
		}
		all, up, err := Arrows(packages[0], Order(packages[0], "# Where things are"))
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		t.Logf("%s: %d arrows, %d of them up", folder, len(all), len(up))
		for _, a := range up {
			if !slices.Contains(allowed, a) {
				t.Errorf("%s: %s, which is above it", folder, a)
			}
		}
		for _, a := range allowed {
			if !slices.Contains(up, a) {
				t.Errorf("%s: an exception that is not needed: %s", folder, a)
			}
		}
		if len(up)*10 > len(all) {
			t.Errorf("%s: %d of %d uses go up, which is more than one in ten", folder, len(up), len(all))
		}
	}
}

// TestArrows asks about this package, of which the test is not a part.
func TestArrows(t *testing.T) {
	packages, err := typed.Load(t.Context(), ".", func(string, string) bool { return true }, "../mutate")
	if err != nil {
		t.Fatal(err)
	}
	files := []string{}
	for _, file := range packages[0].Files {
		name := packages[0].Positions.Position(file.Pos()).Filename
		if name = strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], ".go"); name != "doc" {
			files = append(files, name)
		}
	}
	all, down, err := Arrows(packages[0], files)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	_, up, err := Arrows(packages[0], files)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 || len(up)+len(down) != len(all) {
		t.Errorf("%d arrows, %d go up in one order, %d in the other", len(all), len(down), len(up))
	}
	if _, _, err := Arrows(packages[0], files[1:]); err == nil || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("without %s the error is %v", files[0], err)
	}
	if _, _, err := Arrows(packages[0], append(files, "absent")); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("with a file that is not there the error is %v", err)
	}
}
