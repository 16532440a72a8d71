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
	// MaxPods is how many pods one object may stand for.
	MaxPods = 10_000
	// MaxTotal is how many all objects may stand for.
	MaxTotal = 10 * MaxPods
)

// Controller is an object that makes pods.
type Controller struct {
	Kind   schema.GroupVersionKind
	Object *unstructured.Unstructured
	Parts  []*Part
	// Foreign is set if the kind is not known, and the object only looks like one that
	// makes pods.
	Foreign bool
}

// Part is a pod template and how many pods of it there are to be.
type Part struct {
	// Name tells it from other parts of the object; empty if there is one.
	Name  string
	Count int
	// Path is where the template stands in the object, such as "spec.template".
	Path     string
	Template *corev1.PodTemplateSpec
}

// String is "Deployment ml/trainer".
func (c *Controller) String() string {
	return c.Kind.Kind + " " + c.Object.GetNamespace() + "/" + c.Object.GetName()
}

// Read finds the pod templates of an object. It returns nil if there are none and the kind
// is not known to make pods. Unknown are fields of templates that do not exist. The error
// names the field.
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
			part, strict, err := readPart(object.Object, p, at)
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

// adjust applies what the table does not say.
func (c *Controller) adjust() {
	if c.Kind.Kind != "LeaderWorkerSet" {
		return
	}
	// The size of a group includes its leader, who is made from the workers' template if
	// there is no other.
	groups := 1
	if n, found := number(c.Object.Object, "spec.replicas"); found {
		groups = n
	}
	if len(c.Parts) == 2 {
		c.Parts[1].Count = max(0, c.Parts[1].Count-groups)
	}
}

func readPart(object map[string]any, p place, at resolved) (*Part, []error, error) {
	part := &Part{Path: at.path, Name: strings.TrimPrefix(p.name, "."), Count: 1}
	if strings.HasPrefix(p.name, ".") {
		part.Name = at.name(object, p.name[1:])
	}
	for _, path := range p.replicas {
		if n, found := number(object, at.fill(path)); found {
			if n < 0 {
				return nil, nil, fmt.Errorf("%s: must not be negative, got %d", at.fill(path), n)
			}
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

// resolved is a value found by a path with stars, and what the stars stood for.
type resolved struct {
	path  string
	stars []string
	value any
}

// fill puts the same things for the stars of another path.
func (r resolved) fill(path string) string {
	for _, star := range r.stars {
		path = strings.Replace(path, "*", star, 1)
	}
	return path
}

// name reads a string; a path that ends in a star is the key that it stands for.
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

// Owner is the controller of the object, nil if there is none.
func (c *Controller) Owner() *metav1.OwnerReference { return metav1.GetControllerOf(c.Object) }
