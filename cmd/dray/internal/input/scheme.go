package input

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcev1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	resourcev1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"
)

// scheme knows all versions that dray reads and converts them to v1.
var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, addToScheme := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, resourceapi.AddToScheme, resourcev1beta2.AddToScheme, resourcev1beta1.AddToScheme,
	} {
		utilruntime.Must(addToScheme(s))
	}
	return s
}

// used names the kinds that dray makes use of, by API group.
var used = map[string]sets.Set[string]{
	corev1.GroupName: sets.New("Node", "Pod"),
	resourceapi.GroupName: sets.New(
		"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
}

func isUsed(gk schema.GroupKind) bool { return used[gk.Group].Has(gk.Kind) }

// itemKind returns the kind of a typed list's items.
func itemKind(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	kind, isList := strings.CutSuffix(gvk.Kind, "List")
	return gvk.GroupVersion().WithKind(kind), isList && kind != ""
}

// isUntypedList reports whether gvk is the List whose items carry their own kinds.
func isUntypedList(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "" && gvk.Version == "v1" && gvk.Kind == "List"
}
