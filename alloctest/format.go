// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

var scenarioName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:#-]*$`)

// Format writes a case and its outcome as the text of a scenario file with one
// scenario. Parse reads an equal case from it. Objects that the language has no
// words for are written as YAML. It is an error if the name of the case is not a
// single word of letters, digits and ._/:#- or if the case holds what no scenario can:
// two objects of one kind with the same name, a claim in use without allocation.
func Format(c *Case, o Outcome) (string, error) {
	text, err := FormatSequence([]Turn{{Case: c}}, []Outcome{o})
	if err != nil {
		return "", fmt.Errorf("case %s: %w", c.Name, err)
	}
	return text, nil
}

// FormatSequence writes the turns of a sequence and their outcomes as the text of a scenario file.
func FormatSequence(turns []Turn, outcomes []Outcome) (string, error) {
	w := &writer{}
	last := &Case{}
	for i, turn := range turns {
		if err := turn.writable(); err != nil {
			return "", err
		}
		if i > 0 {
			w.line("")
		}
		c := turn.After(last)
		if err := w.turn(turn, i == 0, Render(c, outcomes[i])); err != nil {
			return "", err
		}
		last = c
		if !turn.DryRun {
			last = c.WithAllocated(outcomes[i].Results)
		}
	}
	return w.text.String(), w.verify(turns, outcomes)
}

func (t Turn) writable() error {
	if !scenarioName.MatchString(t.Case.Name) {
		return fmt.Errorf("case %q: name is not a single word", t.Case.Name)
	}
	for _, claim := range t.Case.Allocated {
		if claim.Status.Allocation == nil {
			return fmt.Errorf("claim %s is in use, but has no allocation", claim.Name)
		}
	}
	return nil
}

type writer struct{ text strings.Builder }

func (w *writer) line(line string) { w.text.WriteString(line + "\n") }

// turn writes the changes and the question of a turn. The objects of the first turn are written as the cluster.
func (w *writer) turn(t Turn, first bool, outcome string) error {
	directive := "allocate "
	if first {
		w.line("cluster")
	} else {
		directive = "then "
		w.line(directive + arguments(t))
	}
	if len(t.Gone) > 0 {
		w.line("gone " + quoteEach(t.Gone))
	}
	if len(t.Released) > 0 {
		w.line("released " + quoteEach(t.Released))
	}
	err := errors.Join(
		writeAll(w, t.Case.Nodes, writeNode),
		writeAll(w, t.Case.Classes, writeClass),
		writeAll(w, t.Case.Slices, writeSlice),
		writeAll(w, t.Case.Allocated, writeAllocated))
	if first {
		w.line(separator)
		w.line("")
		w.line(directive + arguments(t))
	}
	err = errors.Join(err, writeAll(w, t.Case.Claims, writeClaim))
	w.line(separator)
	w.text.WriteString(outcome)
	return err
}

func quoteEach(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return strings.Join(quoted, " ")
}

func arguments(t Turn) string {
	line := t.Case.Name + " node=" + t.Case.Node
	if off := featuresOff(t.Case.Features); len(off) > 0 {
		line += " without=(" + strings.Join(off, ", ") + ")"
	}
	if t.DryRun {
		line += " dry-run"
	}
	return line
}

// writeAll writes objects in the compact form or, if that would not be read
// back as the same object, as YAML.
func writeAll[T object](w *writer, objects []T, compact func(T) []string) error {
	for _, o := range objects {
		lines := compact(o)
		if !readsBack(o, lines) {
			var err error
			if lines, err = writeManifest(o); err != nil {
				return err
			}
			if !readsBack(o, lines) {
				return fmt.Errorf("%T %q cannot be written, it may be without a name", o, o.GetName())
			}
		}
		for _, line := range lines {
			w.line(line)
		}
	}
	return nil
}

func readsBack(o object, lines []string) bool {
	var input []source
	for _, text := range lines {
		for line := range strings.Lines(text + "\n") {
			input = append(input, source{text: strings.TrimSuffix(line, "\n")})
		}
	}
	c, err := parseCluster(input, 0)
	if err != nil {
		return false
	}
	var read []object
	read = append(read, objects(c.nodes)...)
	read = append(read, objects(c.classes)...)
	read = append(read, objects(c.slices)...)
	read = append(read, objects(c.allocated)...)
	read = append(read, objects(c.claims)...)
	return len(read) == 1 && sameObject(read[0], o)
}

func objects[T object](typed []T) []object {
	var all []object
	for _, o := range typed {
		all = append(all, o)
	}
	return all
}

// verify makes sure that nothing of the turns was lost between their objects.
func (w *writer) verify(turns []Turn, outcomes []Outcome) error {
	scenarios, err := Parse("formatted", w.text.String())
	if err != nil {
		return err
	}
	if len(scenarios) != len(turns) {
		return fmt.Errorf("%d turns are written as %d scenarios", len(turns), len(scenarios))
	}
	last := &Case{}
	for i, turn := range turns {
		c := turn.After(last)
		if err := same(scenarios[i].Case, c); err != nil {
			return fmt.Errorf("turn %s: %w", c.Name, err)
		}
		last = c
		if !turn.DryRun {
			last = c.WithAllocated(outcomes[i].Results)
		}
	}
	return nil
}

func same(read, c *Case) error {
	switch {
	case read.Node != c.Node || read.Features != c.Features:
		return errors.New("node or features cannot be written")
	case !sameAll(read.Nodes, c.Nodes), !sameAll(read.Classes, c.Classes), !sameAll(read.Slices, c.Slices):
		return errors.New("cluster cannot be written")
	case !sameAll(read.Allocated, c.Allocated), !sameAll(read.Claims, c.Claims):
		return errors.New("claims cannot be written")
	}
	return nil
}

func sameAll[T *corev1.Node | *resourceapi.DeviceClass | *resourceapi.ResourceSlice | *resourceapi.ResourceClaim](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameObject(a[i], b[i]) {
			return false
		}
	}
	return true
}
