// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
)

// Turn is one question of a sequence. All turns are about one cluster: the devices that one turn allocates are
// in use in the next, unless it was a dry run.
type Turn struct {
	// Case has the question: Name, Features, Claims, Node. In the first turn its other objects are the cluster.
	// In later turns they are those that are new or changed; they replace objects of the same name.
	Case *Case
	// Gone are names of slices, Released names of claims in use, that are removed in this turn.
	Gone, Released []string
	DryRun         bool
}

// DeepCopy returns a turn with copies of all objects.
func (t Turn) DeepCopy() Turn {
	t.Case = t.Case.DeepCopy()
	t.Gone, t.Released = slices.Clone(t.Gone), slices.Clone(t.Released)
	return t
}

// First returns the case of the first turn of a sequence.
func (t Turn) First() *Case { return t.After(&Case{}) }

// After returns the case of a turn after the case last. It shares unchanged objects with last.
func (t Turn) After(last *Case) *Case {
	next := *t.Case
	next.Nodes = replaced(last.Nodes, t.Case.Nodes)
	next.Classes = replaced(last.Classes, t.Case.Classes)
	next.Slices = replaced(dropNamed(last.Slices, t.Gone), t.Case.Slices)
	next.Allocated = replaced(dropNamed(last.Allocated, t.Released), t.Case.Allocated)
	return &next
}

func dropNamed[T object](objects []T, names []string) []T {
	return slices.DeleteFunc(slices.Clone(objects), func(o T) bool { return slices.Contains(names, o.GetName()) })
}

// WithAllocated returns the case with its claims allocated by results, one for each claim. Without results it
// is an equal case. The IDs of shares are made from names of claims. The case and the results stay unchanged.
func (c *Case) WithAllocated(results []resourceapi.AllocationResult) *Case {
	next := *c
	next.Claims = nil
	var allocated []*resourceapi.ResourceClaim
	for i := range results {
		claim := c.Claims[i].DeepCopy()
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: results[i].DeepCopy().Devices.Results,
		}}
		devices := claim.Status.Allocation.Devices.Results
		for d := range devices {
			if devices[d].ShareID != nil {
				devices[d].ShareID = new(shareID(claim, d))
			}
		}
		allocated = append(allocated, claim)
	}
	next.Allocated = replaced(c.Allocated, allocated)
	return &next
}

func shareID(claim *resourceapi.ResourceClaim, device int) types.UID {
	return types.UID(claim.Name + "-" + formatInt(int64(device)))
}

// then reads a directive that continues from the one before.
func (p *parser) then(d directive) error {
	if len(p.scenarios) == 0 {
		return errors.New("then: follows an allocate directive")
	}
	last := &p.scenarios[len(p.scenarios)-1]
	var results []resourceapi.AllocationResult
	if !last.DryRun {
		var err error
		if results, err = expectedResults(last.Case, last.Expected); err != nil {
			return within("then: outcome of "+last.Name, err)
		}
	}
	before := last.Case.WithAllocated(results)
	more, err := parseCluster(d.input, len(before.Allocated))
	if err != nil {
		return err
	}
	turn := more.turn()
	if err := turn.known(before); err != nil {
		return within("then", err)
	}
	s := Scenario{File: p.file, Line: d.line, Expected: d.expected, Then: true, Case: turn.After(before)}
	return within("then", p.add(s, d.args))
}

// turn returns the changes of a directive to the cluster.
func (c *cluster) turn() Turn {
	return Turn{Gone: c.gone, Released: c.released, Case: &Case{
		Features: allocator.AllFeatures(),
		Nodes:    c.nodes, Slices: c.slices, Classes: c.classes, Allocated: c.allocated, Claims: c.claims,
	}}
}

// known checks that the removed slices and claims exist.
func (t Turn) known(last *Case) error {
	for _, name := range t.Gone {
		if !slices.ContainsFunc(last.Slices, func(s *resourceapi.ResourceSlice) bool { return s.Name == name }) {
			return fmt.Errorf("gone: there is no slice %s", name)
		}
	}
	for _, name := range t.Released {
		if !slices.ContainsFunc(last.Allocated, func(c *resourceapi.ResourceClaim) bool { return c.Name == name }) {
			return fmt.Errorf("released: no claim %s is in use", name)
		}
	}
	return nil
}

// expectedResults parses the devices in a text of Render, by claim of the case. It is nil if nothing is
// allocated.
func expectedResults(c *Case, expected string) ([]resourceapi.AllocationResult, error) {
	switch strings.TrimSpace(expected) {
	case "", unsatisfiable, failed, failedOnNode, nothing:
		return nil, nil
	}
	results := make([]resourceapi.AllocationResult, len(c.Claims))
	for line := range strings.Lines(expected) {
		for _, text := range deviceLines(strings.TrimSpace(line)) {
			if err := addExpected(c, results, text); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// deviceLines expands a line with a span such as gpu-[0..7]. It returns nothing for other lines than those of
// devices.
func deviceLines(line string) []string {
	if !strings.Contains(line, " "+arrow+" ") {
		return nil
	}
	bounds := span.FindStringSubmatch(line)
	if bounds == nil {
		return []string{line}
	}
	var lines []string
	first, _ := parseInt(bounds[1])
	last, _ := parseInt(bounds[2])
	for i := first; i <= last && i-first < maxSpan; i++ {
		lines = append(lines, strings.Replace(line, bounds[0], formatInt(i), 1))
	}
	return lines
}

func addExpected(c *Case, results []resourceapi.AllocationResult, line string) error {
	w := &words{text: line}
	word, err := unquote(w.next())
	if err != nil {
		return err
	}
	name, request, _ := strings.Cut(word, "/")
	i := slices.IndexFunc(c.Claims, func(claim *resourceapi.ResourceClaim) bool { return claim.Name == name })
	if i < 0 {
		return fmt.Errorf("%s: there is no such claim", word)
	}
	result, err := parseResult(request, w, func() types.UID { return "" })
	results[i].Devices.Results = append(results[i].Devices.Results, result)
	return within(word, err)
}
