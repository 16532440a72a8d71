package input

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/cmd/dray/internal/workload"
	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Objects is everything dray uses of what was read, in the order of reading.
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
	// Controllers are objects that make pods, such as Deployments.
	Controllers []*workload.Controller

	// Prototype holds the objects of devmgmtproto.k8s.io, which are also translated unless
	// Options.Untranslated says otherwise, and all objects of unknown kinds, to which they may
	// refer.
	Prototype translate.Prototype

	// Ignored counts the objects passed over, by "kind.group".
	Ignored map[string]int
	// Warnings are what was found wrong and passed over, as Options.Validate says.
	Warnings []error
	// Complete is set for a live cluster: what was not read does not exist.
	Complete bool

	origins map[key]Origin
}

type key struct{ kind, namespace, name string }

// NewObjects returns an empty set.
func NewObjects() *Objects {
	return &Objects{Ignored: make(map[string]int), origins: make(map[key]Origin)}
}

// Origin returns where the object of that kind was read. Namespace is empty for
// kinds without one. The second result is false for an unknown object.
func (o *Objects) Origin(kind, namespace, name string) (Origin, bool) {
	origin, found := o.origins[key{kind, namespace, name}]
	return origin, found
}

// add files the object under its kind. Objects of kinds that dray has no use for
// are the caller's to count.
func (o *Objects) add(object runtime.Object, origin Origin) error {
	switch object := object.(type) {
	case *corev1.Node:
		o.Nodes = append(o.Nodes, object)
		return o.register("Node", object, origin)
	case *corev1.Pod:
		o.Pods = append(o.Pods, object)
		return o.register("Pod", object, origin)
	case *resourceapi.ResourceClaim:
		o.Claims = append(o.Claims, object)
		return o.register("ResourceClaim", object, origin)
	case *resourceapi.ResourceClaimTemplate:
		o.Templates = append(o.Templates, object)
		return o.register("ResourceClaimTemplate", object, origin)
	case *resourceapi.DeviceClass:
		o.Classes = append(o.Classes, object)
		return o.register("DeviceClass", object, origin)
	case *resourceapi.ResourceSlice:
		o.Slices = append(o.Slices, object)
		return o.register("ResourceSlice", object, origin)
	case *resourceapi.DeviceTaintRule:
		o.TaintRules = append(o.TaintRules, object)
		return o.register("DeviceTaintRule", object, origin)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, object)
		return o.register("Namespace", object, origin)
	case *schedulingapi.PodGroup:
		o.PodGroups = append(o.PodGroups, object)
		return o.register("PodGroup", object, origin)
	case *v1alpha1.DevicePool:
		o.Prototype.Pools = append(o.Prototype.Pools, object)
		return o.register(prototypeKind("DevicePool"), object, origin)
	case *v1alpha1.DeviceClass:
		o.Prototype.Classes = append(o.Prototype.Classes, object)
		return o.register(prototypeKind("DeviceClass"), object, origin)
	case *v1alpha1.DeviceClaim:
		o.Prototype.Claims = append(o.Prototype.Claims, object)
		return o.register(prototypeKind("DeviceClaim"), object, origin)
	}
	return fmt.Errorf("%s: dray cannot file a %T", origin, object)
}

func (o *Objects) register(kind string, object metav1.Object, origin Origin) error {
	k := key{kind, object.GetNamespace(), object.GetName()}
	if first, found := o.origins[k]; found {
		return fmt.Errorf("%s: %s: the same object was already read from %s", origin, describe(kind, object), first)
	}
	o.origins[k] = origin
	return nil
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

// shorten keeps messages readable when a value is absurdly long.
func shorten(text string) string {
	const limit = 120
	// The YAML parser lists its findings line by line.
	text = strings.ReplaceAll(strings.Replace(text, "unmarshal errors:\n  ", "", 1), "\n  ", ", ")
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%.*s… (%d bytes)", limit, text, len(text))
}
