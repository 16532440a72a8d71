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
	if !scenarioName.MatchString(c.Name) {
		return "", fmt.Errorf("case %q: name is not a single word", c.Name)
	}
	for _, claim := range c.Allocated {
		if claim.Status.Allocation == nil {
			return "", fmt.Errorf("case %s: claim %s is in use, but has no allocation", c.Name, claim.Name)
		}
	}
	w := &writer{}
	w.line("cluster")
	err := errors.Join(
		writeAll(w, c.Nodes, writeNode),
		writeAll(w, c.Classes, writeClass),
		writeAll(w, c.Slices, writeSlice),
		writeAll(w, c.Allocated, writeAllocated))
	w.line(separator)
	w.line("")
	w.line(arguments(c))
	err = errors.Join(err, writeAll(w, c.Claims, writeClaim))
	if err != nil {
		return "", fmt.Errorf("case %s: %w", c.Name, err)
	}
	w.line(separator)
	return w.text.String() + Render(c, o), w.verify(c)
}

type writer struct{ text strings.Builder }

func (w *writer) line(line string) { w.text.WriteString(line + "\n") }

func arguments(c *Case) string {
	line := "allocate " + c.Name + " node=" + c.Node
	if off := featuresOff(c.Features); len(off) > 0 {
		line += " without=(" + strings.Join(off, ", ") + ")"
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

// verify makes sure that nothing of the case was lost between its objects.
func (w *writer) verify(c *Case) error {
	scenarios, err := Parse(c.Name, w.text.String())
	if err != nil {
		return err
	}
	read := scenarios[0].Case
	switch {
	case read.Node != c.Node || read.Features != c.Features:
		return fmt.Errorf("case %s: node or features cannot be written", c.Name)
	case !sameAll(read.Nodes, c.Nodes), !sameAll(read.Classes, c.Classes), !sameAll(read.Slices, c.Slices):
		return fmt.Errorf("case %s: cluster cannot be written", c.Name)
	case !sameAll(read.Allocated, c.Allocated), !sameAll(read.Claims, c.Claims):
		return fmt.Errorf("case %s: claims cannot be written", c.Name)
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
