// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

const (
	// MaxPods is the maximum number of pods of one object.
	MaxPods = 10_000
	// MaxTotal is the maximum number of pods of all objects.
	MaxTotal = 10 * MaxPods
)

// Controller is an object that makes pods.
type Controller struct {
	Kind   schema.GroupVersionKind
	Object *unstructured.Unstructured
	Parts  []*Part
	// Foreign says that the kind is unknown, and that the object only has a pod template at
	// spec.template.
	Foreign bool
}

// Part is a pod template with its number of pods.
type Part struct {
	// Name distinguishes the parts of an object. It is empty if there is one part.
	Name  string
	Count int
	// Path is the path of the template in the object, such as "spec.template".
	Path     string
	Template *corev1.PodTemplateSpec
}

// String returns, for instance, "Deployment ml/trainer".
func (c *Controller) String() string {
	return c.Kind.Kind + " " + c.Object.GetNamespace() + "/" + c.Object.GetName()
}

// Read finds the pod templates of an object. It returns nil if there are none and the kind is
// unknown. unknown has errors about fields that do not exist in a template. The error names the
// field.
func Read(gvk schema.GroupVersionKind, object *unstructured.Unstructured) (c *Controller, unknown []error, err error) {
	known, isKnown := kinds[gvk.GroupKind().String()]
	if !isKnown {
		known = other
		if _, found := lookUp(object.Object, "spec.template.spec.containers").([]any); !found {
			return nil, nil, nil
		}
	}
	c = &Controller{Kind: gvk, Object: object, Foreign: !isKnown}
	for _, p := range known.parts {
		for _, at := range resolve(object.Object, p.template) {
			part, strict, err := readPart(object.Object, p, at, c.Foreign)
			if err != nil {
				return nil, nil, err
			}
			c.Parts = append(c.Parts, part)
			unknown = append(unknown, strict...)
		}
	}
	if len(c.Parts) == 0 {
		return nil, nil, fmt.Errorf("%s: no pod template", known.parts[0].template)
	}
	c.adjust()
	return c, unknown, nil
}

// adjust handles kinds for which the table is not enough.
func (c *Controller) adjust() {
	if c.Kind.Kind != "LeaderWorkerSet" {
		return
	}
	// The size of a group includes its leader. The leader uses the workers' template if it has none
	// of its own.
	groups := 1
	if n, found := number(c.Object.Object, "spec.replicas"); found {
		groups = n
	}
	if len(c.Parts) == 2 {
		c.Parts[1].Count = max(0, c.Parts[1].Count-groups)
	}
}

func readPart(object map[string]any, p place, at resolved, foreign bool) (*Part, []error, error) {
	part := &Part{Path: at.path, Name: strings.TrimPrefix(p.name, "."), Count: 1}
	if strings.HasPrefix(p.name, ".") {
		part.Name = at.name(object, p.name[1:])
	}
	for i, path := range p.replicas {
		n, found := number(object, at.fill(path))
		if value := lookUp(object, at.fill(path)); !found && value != nil && !foreign {
			return nil, nil, fmt.Errorf("%s: want a number, got %q", at.fill(path), fmt.Sprint(value))
		}
		if found && n < 0 {
			return nil, nil, fmt.Errorf("%s: must not be negative, got %d", at.fill(path), n)
		}
		if i == 0 && p.least != "" {
			n, found = p.bounded(object, at, n), true
		}
		if found {
			part.Count *= n
		}
		if part.Count > MaxPods {
			return nil, nil, fmt.Errorf("%s: %d pods are more than the %d that are looked at", at.fill(path), part.Count, MaxPods)
		}
	}
	if limit, found := number(object, at.fill(p.atMost)); found && p.atMost != "" {
		part.Count = min(part.Count, limit)
	}
	raw, err := json.Marshal(at.value)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", at.path, err)
	}
	part.Template = &corev1.PodTemplateSpec{}
	strict, err := kjson.UnmarshalStrict(raw, part.Template)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", at.path, err)
	}
	for i, err := range strict {
		strict[i] = fmt.Errorf("%s: %w", at.path, err)
	}
	return part, strict, nil
}

// bounded returns a number of replicas, 0 if none is given, within its bounds.
func (p place) bounded(object map[string]any, at resolved, n int) int {
	least, _ := number(object, at.fill(p.least))
	if most, found := number(object, at.fill(p.most)); found {
		n = min(n, most)
	}
	return max(n, least, 0)
}

// resolved is a value found by a path with stars, with what the stars stand for.
type resolved struct {
	path  string
	stars []string
	value any
}

// fill replaces the stars in another path by the same values.
func (r resolved) fill(path string) string {
	for _, star := range r.stars {
		path = strings.Replace(path, "*", star, 1)
	}
	return path
}

// name returns the string at a path. If the path ends with a star, it is the key that the star
// stands for.
func (r resolved) name(object map[string]any, path string) string {
	if strings.HasSuffix(path, "*") {
		return r.stars[len(r.stars)-1]
	}
	text, _ := lookUp(object, r.fill(path)).(string)
	return text
}

func resolve(value any, path string) []resolved {
	found := []resolved{{value: value}}
	for step := range strings.SplitSeq(path, ".") {
		var next []resolved
		for _, r := range found {
			next = append(next, r.step(step)...)
		}
		found = next
	}
	return found
}

func (r resolved) step(step string) []resolved {
	if step != "*" {
		if value := member(r.value, step); value != nil {
			return []resolved{r.to(step, value, false)}
		}
		return nil
	}
	var found []resolved
	switch value := r.value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = append(found, r.to(key, value[key], true))
		}
	case []any:
		for i, item := range value {
			found = append(found, r.to(strconv.Itoa(i), item, true))
		}
	}
	return found
}

func (r resolved) to(step string, value any, star bool) resolved {
	next := resolved{path: strings.TrimPrefix(r.path+"."+step, "."), stars: slices.Clone(r.stars), value: value}
	if star {
		next.stars = append(next.stars, step)
	}
	return next
}

func member(value any, step string) any {
	switch value := value.(type) {
	case map[string]any:
		return value[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(value) {
			return value[i]
		}
	}
	return nil
}

func lookUp(value any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		value = member(value, step)
	}
	return value
}

func number(object map[string]any, path string) (int, bool) {
	switch n := lookUp(object, path).(type) {
	case int64:
		return int(min(n, math.MaxInt32)), true
	case float64:
		return int(min(n, math.MaxInt32)), true
	}
	return 0, false
}

// Owner returns the controller of the object, nil if there is none.
func (c *Controller) Owner() *metav1.OwnerReference { return metav1.GetControllerOf(c.Object) }
