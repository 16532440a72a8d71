// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodeapi "k8s.io/api/node/v1"
	policyapi "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	priorityapi "k8s.io/api/scheduling/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/cmd/dray/internal/workload"
	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Objects has the objects that dray uses, in the order of reading.
type Objects struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Claims     []*resourceapi.ResourceClaim
	Templates  []*resourceapi.ResourceClaimTemplate
	Classes    []*resourceapi.DeviceClass
	Slices     []*resourceapi.ResourceSlice
	TaintRules []*resourceapi.DeviceTaintRule
	Namespaces []*corev1.Namespace
	PodGroups  []*schedulingapi.PodGroup
	// Budgets are PodDisruptionBudgets.
	Budgets []*policyapi.PodDisruptionBudget
	// PriorityClasses, RuntimeClasses and LimitRanges complete pods that are read from files.
	PriorityClasses []*priorityapi.PriorityClass
	RuntimeClasses  []*nodeapi.RuntimeClass
	LimitRanges     []*corev1.LimitRange
	// Controllers are objects that make pods, such as Deployments.
	Controllers []*workload.Controller
	// Opaque has objects of unknown kinds that use claims. It is unknown which pods they make.
	Opaque []*unstructured.Unstructured

	// Prototype has the objects of devmgmtproto.k8s.io, and objects of unknown kinds, to which they
	// may refer. The former are also translated, unless Options.Untranslated is set.
	Prototype translate.Prototype

	// Ignored counts the ignored objects, by "kind.group".
	Ignored map[string]int
	// Warnings has errors that Options.Findings turns into warnings.
	Warnings []error

	known map[key]filed
}

// filed is an object with its origin.
type filed struct {
	origin Origin
	object metav1.Object
}

type key struct{ kind, namespace, name string }

// NewObjects returns an empty set.
func NewObjects() *Objects {
	return &Objects{Ignored: make(map[string]int), known: make(map[key]filed)}
}

// Origin returns where an object was read. namespace is empty for cluster-scoped kinds. The second
// result is false for an unknown object.
func (o *Objects) Origin(kind, namespace, name string) (Origin, bool) {
	first, found := o.known[key{kind, namespace, name}]
	return first.origin, found
}

// add adds an object. It ignores objects of unused kinds, which the caller counts.
func (o *Objects) add(object runtime.Object, origin Origin) error {
	switch object := object.(type) {
	case *corev1.Node:
		return fileUnder(o, &o.Nodes, "Node", object, origin)
	case *corev1.Pod:
		return fileUnder(o, &o.Pods, "Pod", object, origin)
	case *resourceapi.ResourceClaim:
		return fileUnder(o, &o.Claims, "ResourceClaim", object, origin)
	case *resourceapi.ResourceClaimTemplate:
		return fileUnder(o, &o.Templates, "ResourceClaimTemplate", object, origin)
	case *resourceapi.DeviceClass:
		return fileUnder(o, &o.Classes, "DeviceClass", object, origin)
	case *resourceapi.ResourceSlice:
		return fileUnder(o, &o.Slices, "ResourceSlice", object, origin)
	case *resourceapi.DeviceTaintRule:
		return fileUnder(o, &o.TaintRules, "DeviceTaintRule", object, origin)
	case *corev1.Namespace:
		return fileUnder(o, &o.Namespaces, "Namespace", object, origin)
	case *schedulingapi.PodGroup:
		return fileUnder(o, &o.PodGroups, "PodGroup", object, origin)
	case *policyapi.PodDisruptionBudget:
		return fileUnder(o, &o.Budgets, "PodDisruptionBudget", object, origin)
	case *priorityapi.PriorityClass:
		return fileUnder(o, &o.PriorityClasses, "PriorityClass", object, origin)
	case *nodeapi.RuntimeClass:
		return fileUnder(o, &o.RuntimeClasses, "RuntimeClass", object, origin)
	case *corev1.LimitRange:
		return fileUnder(o, &o.LimitRanges, "LimitRange", object, origin)
	case *v1alpha1.DevicePool:
		return fileUnder(o, &o.Prototype.Pools, prototypeKind("DevicePool"), object, origin)
	case *v1alpha1.DeviceClass:
		return fileUnder(o, &o.Prototype.Classes, prototypeKind("DeviceClass"), object, origin)
	case *v1alpha1.DeviceClaim:
		return fileUnder(o, &o.Prototype.Claims, prototypeKind("DeviceClaim"), object, origin)
	}
	return fmt.Errorf("%s: dray cannot file a %T", origin, object)
}

// fileUnder adds an object to the list of its kind. It ignores an equal object that was read
// before.
func fileUnder[T metav1.Object](o *Objects, all *[]T, kind string, object T, origin Origin) error {
	before, isNew, err := o.register(kind, object, origin)
	switch {
	case before != nil:
		(*all)[slices.IndexFunc(*all, func(one T) bool { return metav1.Object(one) == before })] = object
	case isNew:
		*all = append(*all, object)
	}
	return err
}

// register reports whether the object is new. before is the manifest in the place of which it comes,
// if it is what the API server has made of that. The error says that another object has the name.
func (o *Objects) register(kind string, object metav1.Object, origin Origin) (before metav1.Object, isNew bool, err error) {
	k := key{kind, object.GetNamespace(), object.GetName()}
	first, found := o.known[k]
	switch {
	case !found:
		o.known[k] = filed{origin, object}
		return nil, true, nil
	case apiequality.Semantic.DeepEqual(first.object, object), isMadeOf(first.object, object):
		return nil, false, nil
	case isMadeOf(object, first.object):
		o.known[k] = filed{origin, object}
		return first.object, true, nil
	}
	return nil, false, fmt.Errorf("%s: %s: another object of that name was already read from %s", origin, describe(kind, object), first.origin)
}

func describe(kind string, object metav1.Object) string {
	name := shorten(object.GetName())
	if name == "" {
		return kind + " without a name"
	}
	if namespace := object.GetNamespace(); namespace != "" {
		name = shorten(namespace) + "/" + name
	}
	return kind + " " + name
}

// shorten shortens very long values in messages.
func shorten(text string) string {
	const limit = 120
	// the YAML parser's message has several lines
	text = strings.ReplaceAll(strings.Replace(text, "unmarshal errors:\n  ", "", 1), "\n  ", ", ")
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%.*s… (%d bytes)", limit, text, len(text))
}

// Join adds other objects. The lists of o may be shared, and are copied. It returns an error if an
// object's name is taken.
func (o *Objects) Join(more *Objects) error {
	joined := *o
	joined.known = maps.Clone(o.known)
	for name, one := range more.known {
		if first, found := joined.known[name]; found {
			return fmt.Errorf("%s: %s: another object of that name was already read from %s", one.origin, describe(name.kind, one.object), first.origin)
		}
		joined.known[name] = one
	}
	joined.Nodes = slices.Concat(o.Nodes, more.Nodes)
	joined.Pods = slices.Concat(o.Pods, more.Pods)
	joined.Claims = slices.Concat(o.Claims, more.Claims)
	joined.Templates = slices.Concat(o.Templates, more.Templates)
	joined.Classes = slices.Concat(o.Classes, more.Classes)
	joined.Slices = slices.Concat(o.Slices, more.Slices)
	joined.TaintRules = slices.Concat(o.TaintRules, more.TaintRules)
	joined.Namespaces = slices.Concat(o.Namespaces, more.Namespaces)
	joined.PodGroups = slices.Concat(o.PodGroups, more.PodGroups)
	joined.Budgets = slices.Concat(o.Budgets, more.Budgets)
	joined.PriorityClasses = slices.Concat(o.PriorityClasses, more.PriorityClasses)
	joined.RuntimeClasses = slices.Concat(o.RuntimeClasses, more.RuntimeClasses)
	joined.LimitRanges = slices.Concat(o.LimitRanges, more.LimitRanges)
	joined.Controllers = slices.Concat(o.Controllers, more.Controllers)
	joined.Opaque = slices.Concat(o.Opaque, more.Opaque)
	*o = joined
	return nil
}
