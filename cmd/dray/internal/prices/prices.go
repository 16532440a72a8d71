// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prices reads the prices of new nodes, and makes node types from them.
package prices

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/mix"
)

// List is the content of a price list.
type List struct {
	Types []Type `json:"types"`
	// Nodes are files with Nodes and ResourceSlices that types may be like. These nodes are not
	// part of the cluster. In the file, paths are relative to it.
	Nodes  []string `json:"nodes,omitempty"`
	Limits []Limit  `json:"limits,omitempty"`
}

// Type is a type of new nodes.
type Type struct {
	// Name defaults to Like.
	Name string `json:"name,omitempty"`
	Like string `json:"like"`
	// Price is the price of one node, in any unit.
	Price *float64 `json:"price"`
	// Labels are added to the labels of Like.
	Labels map[string]string `json:"labels,omitempty"`
	Most   *int              `json:"most,omitempty"`
}

// Limit bounds the number of new nodes of some types, or of all types with some labels.
type Limit struct {
	Types  []string          `json:"types,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Most   *int              `json:"most"`
}

// Read reads a price list. The error names the file and the entry.
func Read(path string) (*List, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := &List{}
	if err := decode(content, list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list.Types) == 0 {
		return nil, fmt.Errorf("%s: there are no types", path)
	}
	names := make(map[string]bool)
	for i := range list.Types {
		if err := list.Types[i].check(names); err != nil {
			return nil, fmt.Errorf("%s: types[%d]: %w", path, i, err)
		}
	}
	for i, limit := range list.Limits {
		if err := limit.check(names); err != nil {
			return nil, fmt.Errorf("%s: limits[%d]: %w", path, i, err)
		}
	}
	for i, name := range list.Nodes {
		if !filepath.IsAbs(name) {
			list.Nodes[i] = filepath.Join(filepath.Dir(path), name)
		}
	}
	return list, nil
}

// decode decodes the single document of a file. It ignores empty documents.
func decode(content []byte, list *List) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for read := false; ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, err := yaml.YAMLToJSONStrict(document); err == nil && string(text) == "null" {
			continue
		}
		if read {
			return errors.New("there is more than one document")
		}
		if read, err = true, yaml.UnmarshalStrict(document, list); err != nil {
			return err
		}
	}
}

// check sets the default name, and adds it to names. It returns an error if the name is taken.
func (t *Type) check(names map[string]bool) error {
	if t.Like == "" {
		return errors.New("like is missing: name a node")
	}
	if t.Name == "" {
		t.Name = t.Like
	}
	if wrong := validation.IsDNS1123Subdomain(t.Name); len(wrong) > 0 {
		return fmt.Errorf("name %q: %s", t.Name, wrong[0])
	}
	if names[t.Name] {
		return fmt.Errorf("there is another type of the name %s", t.Name)
	}
	names[t.Name] = true
	if t.Price == nil {
		return errors.New("price is missing")
	}
	if err := metav1.ValidateLabels(t.Labels, field.NewPath("labels")).ToAggregate(); err != nil {
		return err
	}
	if t.Most != nil && *t.Most < 0 {
		return fmt.Errorf("most: %d: want 0 or more", *t.Most)
	}
	return nil
}

func (l *Limit) check(names map[string]bool) error {
	if (len(l.Types) == 0) == (len(l.Labels) == 0) {
		return errors.New("want either types or labels")
	}
	for _, name := range l.Types {
		if !names[name] {
			return fmt.Errorf("there is no type of the name %s", name)
		}
	}
	if l.Most == nil {
		return errors.New("most is missing")
	}
	if *l.Most < 0 {
		return fmt.Errorf("most: %d: want 0 or more", *l.Most)
	}
	return nil
}

// covers reports whether a limit includes a type.
func (l *Limit) covers(t *simulate.Template, name string) bool {
	if len(l.Types) > 0 {
		return slices.Contains(l.Types, name)
	}
	labels := t.Node().Labels
	for key, value := range l.Labels {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// Offers returns the types and limits of a list. A type is like a node among further, or else like
// a node of the state. daemon reports which pods run on each node. The error names the type.
func (list *List) Offers(state *simulate.State, further *input.Objects, daemon func(*corev1.Pod) bool) (types []*simulate.Template, limits []mix.Limit, err error) {
	for i := range list.Types {
		offered := &list.Types[i]
		spec, err := offered.spec(state, further, daemon)
		if err != nil {
			return nil, nil, fmt.Errorf("type %s: %w", offered.Name, err)
		}
		t, err := state.Template(spec)
		if err != nil {
			return nil, nil, err
		}
		types = append(types, t)
		if offered.Most != nil {
			limits = append(limits, mix.Limit{Types: []*simulate.Template{t}, Nodes: *offered.Most})
		}
	}
	for _, limit := range list.Limits {
		found := mix.Limit{Nodes: *limit.Most}
		for i, t := range types {
			if limit.covers(t, list.Types[i].Name) {
				found.Types = append(found.Types, t)
			}
		}
		limits = append(limits, found)
	}
	return types, limits, nil
}

// spec returns a node like another one, with the name of the type.
func (t *Type) spec(state *simulate.State, further *input.Objects, daemon func(*corev1.Pod) bool) (simulate.TemplateSpec, error) {
	var spec simulate.TemplateSpec
	if at := slices.IndexFunc(further.Nodes, func(n *corev1.Node) bool { return n.Name == t.Like }); at >= 0 {
		spec.Node = further.Nodes[at]
		for _, slice := range further.Slices {
			if slice.Spec.NodeName != nil && *slice.Spec.NodeName == t.Like {
				spec.Slices = append(spec.Slices, slice)
			}
		}
	} else {
		like, err := state.TemplateOf(t.Like, daemon)
		if err != nil {
			return spec, err
		}
		spec = like.Spec()
	}
	spec.Node, spec.Price = spec.Node.DeepCopy(), *t.Price
	spec.Node.Name = t.Name
	if spec.Node.Labels == nil {
		spec.Node.Labels = make(map[string]string)
	}
	maps.Copy(spec.Node.Labels, t.Labels)
	renamed := make([]*resourceapi.ResourceSlice, len(spec.Slices))
	for i, slice := range spec.Slices {
		renamed[i] = slice.DeepCopy()
		renamed[i].Name, renamed[i].Spec.Pool.Name = t.Name+"-"+slice.Name, t.Name+"-"+slice.Spec.Pool.Name
	}
	spec.Slices = renamed
	return spec, nil
}
