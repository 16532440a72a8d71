// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	appsapi "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodeapi "k8s.io/api/node/v1"
	policyapi "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	priorityapi "k8s.io/api/scheduling/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/dray-project/dray/cmd/dray/internal/workload"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// envelope has the fields of an object that are needed to find its type.
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
		want := wrongType.Type.String()
		if wrongType.Type.Kind() == reflect.Slice {
			want = "a list"
		}
		return fmt.Errorf("%s: want %s, got %s", wrongType.Field, want, wrongType.Value)
	}
	return err
}

// envelopeOf returns the envelope of an object, which must be valid JSON.
func (b *envelopeCache) envelopeOf(raw []byte) (envelope, error) {
	head := b.peek(raw)
	if gvk, err := head.gvk(); err == nil && isUsed(gvk.GroupKind()) {
		return head, nil // the decoder of the object finds duplicate fields later
	}
	head = envelope{}
	err := head.read(raw)
	return head, err
}

// envelopeCache has envelopes by the text with which objects begin, up to the second of apiVersion
// and kind.
type envelopeCache []cachedEnvelope

type cachedEnvelope struct {
	prefix string
	head   envelope
}

// maxEnvelopes bounds the cache: the objects of a dump have few kinds.
const maxEnvelopes = 16

// peek reads an envelope from the start of an object, since most objects begin with apiVersion and
// kind. It does not read further.
func (b *envelopeCache) peek(raw []byte) (head envelope) {
	for _, known := range *b {
		if len(raw) >= len(known.prefix) && string(raw[:len(known.prefix)]) == known.prefix {
			return known.head
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return head
	}
	for head.APIVersion == "" || head.Kind == "" {
		name, err := decoder.Token()
		if err != nil {
			return head
		}
		value, err := decoder.Token()
		text, isText := value.(string)
		switch {
		case err != nil || !isText:
			return head
		case name == "apiVersion":
			head.APIVersion = text
		case name == "kind":
			head.Kind = text
		default:
			return head
		}
	}
	if len(*b) < maxEnvelopes {
		*b = append(*b, cachedEnvelope{string(raw[:decoder.InputOffset()]), head})
	}
	return head
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

// decode unpacks Lists, and adds the objects in raw. Items of typed lists may omit their kind, as
// in responses of the API server. They then have the inherited one.
func (r *reader) decode(raw []byte, inherited schema.GroupVersionKind, origin Origin) {
	head, err := r.envelopes.envelopeOf(raw)
	if err != nil {
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
	if err := otherRevision(raw, gvk); err != nil && r.options.Findings != FindingsIgnore {
		r.object(origin, fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), err))
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
		r.decodeOther(raw, gvk, origin)
	}
}

// decodeOther handles objects of kinds that dray does not use. It adds objects that make pods, and
// refuses kinds that look like misspelt ones.
func (r *reader) decodeOther(raw []byte, gvk schema.GroupVersionKind, origin Origin) {
	if likely, alike := lookAlike(gvk.GroupKind()); alike {
		r.fail(origin, fmt.Errorf("%s: kind %s of group %q is not known: did you mean %s?", nameIn(raw, gvk.Kind), shorten(gvk.Kind), shorten(gvk.Group), likely))
		return
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		r.object(origin, fmt.Errorf("%s: %s", nameIn(raw, gvk.Kind), shorten(err.Error())))
		return
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(r.options.Namespace)
	}
	setName(object, origin)
	controller, unknown, err := workload.Read(gvk, object)
	if all, isKubernetes, wrong := decodeMaker(raw, gvk); isKubernetes && (controller != nil || err != nil) {
		unknown, err = all, cmp.Or(wrong, err)
	}
	switch {
	case err != nil:
		r.object(origin, fmt.Errorf("%s: %s", nameIn(raw, gvk.Kind), shorten(err.Error())))
	case controller == nil && !makesNoPods.Has(gvk.GroupKind()) && usesClaims(object.Object):
		r.objects.Opaque = append(r.objects.Opaque, object)
		r.objects.Prototype.Referents = append(r.objects.Prototype.Referents, object)
		r.warn(origin, fmt.Errorf("%s: it uses ResourceClaims, but which pods objects of kind %s make is not known: they are not looked at", nameIn(raw, gvk.Kind), gvk.GroupKind()))
	case controller == nil:
		r.objects.Ignored[gvk.GroupKind().String()]++
		r.objects.Prototype.Referents = append(r.objects.Prototype.Referents, object)
	case r.unknownFields(raw, gvk, unknown, origin) && r.templatesAreValid(controller, raw, origin):
		r.addController(controller, origin)
	}
}

// makesNoPods has kinds that only describe the pods of other objects.
var makesNoPods = sets.New(
	schema.GroupKind{Group: corev1.GroupName, Kind: "PodTemplate"},
	schema.GroupKind{Group: appsapi.GroupName, Kind: "ControllerRevision"},
	schema.GroupKind{Group: schedulingapi.GroupName, Kind: "Workload"},
	schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"},
)

// decodeMaker decodes all of an object that makes pods, if its kind is one of Kubernetes. unknown has
// errors about fields that do not exist.
func decodeMaker(raw []byte, gvk schema.GroupVersionKind) (unknown []error, isKubernetes bool, err error) {
	if !scheme.Recognizes(gvk) {
		return nil, false, nil
	}
	object, err := scheme.New(gvk)
	if err != nil {
		return nil, true, err
	}
	if unknown, err = kjson.UnmarshalStrict(raw, object); err != nil {
		err = locate(raw, object, err)
	}
	return unknown, true, err
}

// usesClaims reports whether a value contains a pod spec with claims.
func usesClaims(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			list, isList := member.([]any)
			text, isText := member.(string)
			switch {
			case name == "resourceClaims" && isList && len(list) > 0,
				(name == "resourceClaimName" || name == "resourceClaimTemplateName") && isText && text != "",
				usesClaims(member):
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, usesClaims)
	}
	return false
}

func (r *reader) addController(c *workload.Controller, origin Origin) {
	before, isNew, err := r.objects.register(c.Kind.GroupKind().String(), c.Object, origin)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	if !isNew {
		return
	}
	r.objects.Controllers = slices.DeleteFunc(r.objects.Controllers, func(one *workload.Controller) bool { return metav1.Object(one.Object) == before })
	for _, part := range c.Parts {
		r.pods += part.Count
	}
	if r.pods > workload.MaxTotal {
		r.fail(origin, fmt.Errorf("%s: with its pods there are more than the %d that are looked at", c, workload.MaxTotal))
		return
	}
	r.objects.Controllers = append(r.objects.Controllers, c)
	if c.Foreign {
		r.warn(origin, fmt.Errorf("%s: kind %s is not known: taken for %d pods made from spec.template", c, c.Kind.GroupKind(), c.Parts[0].Count))
	}
	if c.Suspended() {
		r.warn(origin, fmt.Errorf("%s: spec.suspend is set: its pods are looked at as if it were not", c))
	}
}

// templatesAreValid validates the pod templates of a controller, and reports whether the controller
// is used.
func (r *reader) templatesAreValid(c *workload.Controller, raw []byte, origin Origin) bool {
	use := true
	for _, part := range c.Parts {
		setPodDefaults(&part.Template.Spec)
		for _, invalid := range r.options.Validate(&corev1.PodTemplate{Template: *part.Template}) {
			var located *field.Error
			if errors.As(invalid, &located) {
				located.Field = part.Path + strings.TrimPrefix(located.Field, "template")
			}
			use = r.object(origin, fmt.Errorf("%s: %w", nameIn(raw, c.Kind.Kind), invalid)) && use
		}
	}
	return use
}

func (r *reader) decodeItems(items []json.RawMessage, kind schema.GroupVersionKind, origin Origin) {
	for i, item := range items {
		at := origin
		at.Item = i + 1
		items[i] = nil // release the memory of decoded items
		r.decode(item, kind, at)
		r.options.Step()
	}
}

func (r *reader) decodeObject(raw []byte, gvk schema.GroupVersionKind, origin Origin) {
	object, unknown, err := r.typed(raw, gvk)
	if err != nil {
		if r.object(origin, fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), err)) {
			// the object cannot be used
			r.warn(origin, fmt.Errorf("%s: %w: the object is left out", nameIn(raw, gvk.Kind), err))
		}
		return
	}
	if !r.unknownFields(raw, gvk, unknown, origin) {
		return
	}
	use := true
	SetDefaults(object)
	r.setNamespace(object)
	setName(object, origin)
	for _, invalid := range r.options.Validate(object) {
		use = r.object(origin, fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), invalid)) && use
	}
	if !use {
		return
	}
	if err := r.objects.add(object, origin); err != nil {
		r.errs = append(r.errs, err)
	}
}

// unknownFields reports fields that do not exist, and returns whether the object is used.
func (r *reader) unknownFields(raw []byte, gvk schema.GroupVersionKind, unknown []error, origin Origin) bool {
	if len(unknown) == 0 || r.options.Findings == FindingsIgnore {
		return true
	}
	err := fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), joinLine(movedFields(gvk, unknown)))
	if r.options.Findings == FindingsWarn || fromServer(raw) {
		r.warn(origin, err)
		return true
	}
	r.fail(origin, err)
	return false
}

// movedField matches a field of a request in v1beta1 that later versions have in the field exactly.
var movedField = regexp.MustCompile(`requests\[\d+\]\.(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|capacity)"$`)

// movedFields adds hints to errors about fields that moved in v1beta2.
func movedFields(gvk schema.GroupVersionKind, unknown []error) []error {
	if gvk.Group != resourceapi.GroupName || gvk.Version == "v1beta1" {
		return unknown
	}
	told := slices.Clone(unknown)
	for i, err := range told {
		if field := movedField.FindStringSubmatch(err.Error()); field != nil {
			told[i] = fmt.Errorf("%w: since v1beta2 it is exactly.%s of the request", err, field[1])
		}
	}
	return told
}

// fromServer reports whether an API server has written the object.
func fromServer(raw []byte) bool {
	var head struct {
		Metadata struct {
			UID             string `json:"uid"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	// an object that does not decode is not from a server
	err := json.Unmarshal(raw, &head)
	return err == nil && (head.Metadata.UID != "" || head.Metadata.ResourceVersion != "")
}

// typed decodes an object and converts it to v1. unknown has errors about fields that do not exist.
func (r *reader) typed(raw []byte, gvk schema.GroupVersionKind) (object runtime.Object, unknown []error, err error) {
	if gvk.GroupKind() == (schema.GroupKind{Group: resourceapi.GroupName, Kind: "DeviceTaintRule"}) && gvk.Version == "v1alpha3" {
		// Decode as v1, which has the same fields. Selectors that only this version has are
		// reported as unknown.
		gvk.Version = resourceapi.SchemeGroupVersion.Version
	}
	object, err = scheme.New(gvk)
	switch gvk.Kind {
	case "PriorityClass":
		// Versions that are no longer served have the same fields.
		object, err = &priorityapi.PriorityClass{}, nil
	case "RuntimeClass":
		object, err = &nodeapi.RuntimeClass{}, nil
	case "PodGroup":
		// Versions differ in scheduling of groups, not in their claims.
		object, err = &schedulingapi.PodGroup{}, nil
	case "PodDisruptionBudget":
		// v1beta1 has the same fields.
		object, err = &policyapi.PodDisruptionBudget{}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("apiVersion: dray does not read %s of %s: it reads %s", gvk.Kind, gvk.GroupVersion(), strings.Join(versionsOf(gvk.GroupKind()), ", "))
	}
	unknown, err = kjson.UnmarshalStrict(raw, object)
	if err != nil && fromServer(raw) {
		unknown, err = decodeRest(raw, object, err)
	}
	if err != nil {
		return nil, nil, locate(raw, object, err)
	}
	if _, isGroup := object.(*schedulingapi.PodGroup); isGroup {
		return object, nil, nil // versions differ only in fields that are not needed
	}
	object, err = toV1(object, gvk)
	return object, unknown, err
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

// setNamespace sets the default namespace of namespaced objects, as kubectl does.
func (r *reader) setNamespace(object runtime.Object) {
	switch object := object.(type) {
	case *corev1.Pod, *resourceapi.ResourceClaim, *resourceapi.ResourceClaimTemplate, *schedulingapi.PodGroup, *policyapi.PodDisruptionBudget, *corev1.LimitRange, *v1alpha1.DeviceClaim:
		meta := object.(metav1.Object)
		if meta.GetNamespace() == "" {
			meta.SetNamespace(r.options.Namespace)
		}
	case metav1.Object:
		object.SetNamespace("")
	}
}

// setName generates a name for an object with generateName, as the API server does, but
// deterministically.
func setName(object runtime.Object, origin Origin) {
	meta, ok := object.(metav1.Object)
	if !ok || meta.GetName() != "" || meta.GetGenerateName() == "" {
		return
	}
	const length = 5
	sum := sha256.Sum256([]byte(origin.String()))
	meta.SetName(meta.GetGenerateName() + rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:length])
}

// nameIn returns kind and name of an object that could not be decoded.
func nameIn(raw []byte, kind string) string {
	var head struct {
		Metadata struct {
			Namespace any `json:"namespace"`
			Name      any `json:"name"`
		} `json:"metadata"`
	}
	// fields that do not decode stay empty; the caller reports the error
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
