package conformance

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Part is one counterpart and what is run of it.
type Part struct {
	Name string
	// About says in one sentence what is run on what.
	About string
	// Counterpart is the path of the counterpart's module.
	Counterpart string
	// below is the path below the counterpart's module that the part is compiled as.
	below string
	// adapter is the folder below testdata that puts Dray in the counterpart's place.
	adapter string
	// Program is set instead of below and adapter if the counterpart is a program, read from a
	// checkout that the caller has.
	Program *Program
}

//go:embed testdata
var adapters embed.FS

// Parts are all parts that need nothing but the module proxy, in the order of the table.
var Parts = []Part{
	{
		Name:        "allocator",
		About:       "the cases of structured/internal/allocatortesting, on allocator/structured",
		Counterpart: "k8s.io/dynamic-resource-allocation",
		below:       "structured/dray",
		adapter:     "allocator",
	},
}

// Select returns the parts with the given names, or all that need no checkout without names.
// A name also stands for the parts below it: "drivers" for "drivers/dranet" and the others.
func Select(names []string) ([]Part, error) {
	if len(names) == 0 {
		return Parts, nil
	}
	all := slices.Concat(Parts, programs)
	var selected []Part
	for _, name := range names {
		found := false
		for _, part := range all {
			if part.Name == name || strings.HasPrefix(part.Name, name+"/") {
				selected, found = append(selected, part), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	return selected, nil
}

// Programs are the parts that need a checkout, in the order of the table.
func Programs() []Part { return slices.Clone(programs) }
