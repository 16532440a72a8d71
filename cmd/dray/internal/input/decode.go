package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// envelope is what has to be known of an object before its type is.
type envelope struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

func (e *envelope) read(raw []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return fmt.Errorf("want a Kubernetes object, got %s", shorten(string(raw)))
	}
	err := json.Unmarshal(raw, e)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return fmt.Errorf("%s: want %s, got %s", wrongType.Field, wrongType.Type, wrongType.Value)
	}
	return err
}

func (e envelope) gvk() (schema.GroupVersionKind, error) {
	if e.APIVersion == "" {
		return schema.GroupVersionKind{}, errors.New("apiVersion: required")
	}
	if e.Kind == "" {
		return schema.GroupVersionKind{}, errors.New("kind: required")
	}
	gv, err := schema.ParseGroupVersion(e.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("apiVersion: %s", shorten(err.Error()))
	}
	return gv.WithKind(e.Kind), nil
}

// decode unfolds Lists in raw and files what they hold. Items of typed lists may
// leave out their kind, as the API server does: then it is inherited.
func (r *reader) decode(raw []byte, inherited schema.GroupVersionKind, origin Origin) {
	var head envelope
	if err := head.read(raw); err != nil {
		r.fail(origin, err)
		return
	}
	if head.APIVersion == "" && head.Kind == "" && !inherited.Empty() {
		head.APIVersion, head.Kind = inherited.ToAPIVersionAndKind()
	}
	gvk, err := head.gvk()
	if err != nil {
		r.fail(origin, err)
		return
	}
	item, typed := itemKind(gvk)
	switch {
	case isUntypedList(gvk):
		r.decodeItems(head.Items, schema.GroupVersionKind{}, origin)
	case typed && isUsed(item.GroupKind()):
		r.decodeItems(head.Items, item, origin)
	case isUsed(gvk.GroupKind()):
		r.decodeObject(raw, gvk, origin)
	default:
		r.objects.Ignored[gvk.GroupKind().String()]++
	}
}

func (r *reader) decodeItems(items []json.RawMessage, kind schema.GroupVersionKind, origin Origin) {
	for i, item := range items {
		at := origin
		at.Item = i + 1
		r.decode(item, kind, at)
	}
}

func (r *reader) decodeObject(raw []byte, gvk schema.GroupVersionKind, origin Origin) {
	object, err := r.typed(raw, gvk)
	if err != nil {
		r.fail(origin, fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), err))
		return
	}
	SetDefaults(object)
	r.setNamespace(object)
	for _, invalid := range r.options.Validate(object) {
		r.fail(origin, fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), invalid))
	}
	if err := r.objects.add(object, origin); err != nil {
		r.errs = append(r.errs, err)
	}
}

// typed decodes strictly and converts to v1.
func (r *reader) typed(raw []byte, gvk schema.GroupVersionKind) (runtime.Object, error) {
	object, err := scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("apiVersion: dray does not read %s %s", gvk.GroupVersion(), gvk.Kind)
	}
	unknown, err := kjson.UnmarshalStrict(raw, object)
	if err != nil {
		return nil, locate(raw, object, err)
	}
	if len(unknown) > 0 {
		return nil, joinLine(unknown)
	}
	return toV1(object, gvk)
}

func toV1(object runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if gvk.Group != resourceapi.GroupName || gvk.Version == resourceapi.SchemeGroupVersion.Version {
		return object, nil
	}
	converted, err := scheme.ConvertToVersion(object, resourceapi.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("convert %s to v1: %w", gvk.Version, err)
	}
	return converted, nil
}

// setNamespace gives namespaced objects the default namespace, as kubectl does.
func (r *reader) setNamespace(object runtime.Object) {
	switch object := object.(type) {
	case *corev1.Pod, *resourceapi.ResourceClaim, *resourceapi.ResourceClaimTemplate:
		meta := object.(metav1.Object)
		if meta.GetNamespace() == "" {
			meta.SetNamespace(r.options.Namespace)
		}
	case metav1.Object:
		object.SetNamespace("")
	}
}

// nameIn describes an object that does not decode any further.
func nameIn(raw []byte, kind string) string {
	var head struct {
		Metadata struct {
			Namespace any `json:"namespace"`
			Name      any `json:"name"`
		} `json:"metadata"`
	}
	// What cannot be read stays empty: the caller reports that in detail.
	_ = json.Unmarshal(raw, &head)
	name, _ := head.Metadata.Name.(string)
	namespace, _ := head.Metadata.Namespace.(string)
	return describe(kind, &metav1.ObjectMeta{Namespace: namespace, Name: name})
}

func joinLine(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = shorten(err.Error())
	}
	return errors.New(strings.Join(texts, ", "))
}
