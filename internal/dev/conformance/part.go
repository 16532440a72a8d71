package conformance

import (
	"embed"
	"fmt"
	"slices"
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

// Select returns the parts with the given names, or all without names.
func Select(names []string) ([]Part, error) {
	if len(names) == 0 {
		return Parts, nil
	}
	var selected []Part
	for _, name := range names {
		i := slices.IndexFunc(Parts, func(p Part) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no part %q", name)
		}
		selected = append(selected, Parts[i])
	}
	return selected, nil
}
