// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyapi "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/dray-project/dray/cmd/dray/internal/workload"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
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
		want := wrongType.Type.String()
		if wrongType.Type.Kind() == reflect.Slice {
			want = "a list"
		}
		return fmt.Errorf("%s: want %s, got %s", wrongType.Field, want, wrongType.Value)
	}
	return err
}

// envelopeOf reads the envelope of valid JSON.
func (b *beginnings) envelopeOf(raw []byte) (envelope, error) {
	head := b.peek(raw)
	if gvk, err := head.gvk(); err == nil && isUsed(gvk.GroupKind()) {
		return head, nil // a second apiVersion or kind below is found by the decoder of the object
	}
	head = envelope{}
	err := head.read(raw)
	return head, err
}

// beginnings are envelopes of objects that begin in the same way, up to the second of apiVersion and kind.
type beginnings []beginning

type beginning struct {
	text string
	head envelope
}

// mostBeginnings bounds those that are looked for: the objects of a dump are of few kinds.
const mostBeginnings = 16

// peek reads as much of an envelope as the object begins with: most begin with apiVersion and kind. It does not look at
// what follows.
func (b *beginnings) peek(raw []byte) (head envelope) {
	for _, known := range *b {
		if len(raw) >= len(known.text) && string(raw[:len(known.text)]) == known.text {
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
	if len(*b) < mostBeginnings {
		*b = append(*b, beginning{string(raw[:decoder.InputOffset()]), head})
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

// decode unfolds Lists in raw and files what they hold. Items of typed lists may
// leave out their kind, as the API server does: then it is inherited.
func (r *reader) decode(raw []byte, inherited schema.GroupVersionKind, origin Origin) {
	head, err := r.beginnings.envelopeOf(raw)
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

// decodeOther reads objects that make pods, and refuses what is meant to be a kind that is
// used but is spelt wrong.
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
	switch {
	case err != nil:
		r.object(origin, fmt.Errorf("%s: %s", nameIn(raw, gvk.Kind), shorten(err.Error())))
	case controller == nil && usesClaims(object.Object):
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

// usesClaims reports whether any pod that an object describes uses claims.
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
	isNew, err := r.objects.register(c.Kind.GroupKind().String(), c.Object, origin)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	if !isNew {
		return
	}
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

// templatesAreValid checks the pod templates of a controller, and reports whether it is to
// be used.
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
		items[i] = nil // it is not kept once it is decoded
		r.decode(item, kind, at)
		r.options.Step()
	}
}

func (r *reader) decodeObject(raw []byte, gvk schema.GroupVersionKind, origin Origin) {
	object, unknown, err := r.typed(raw, gvk)
	if err != nil {
		if r.object(origin, fmt.Errorf("%s: %w", nameIn(raw, gvk.Kind), err)) {
			// There is nothing to use.
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

// unknownFields reports fields that do not exist, and whether the object is to be used.
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

// movedField is a field of a request that v1beta1 has, and later versions have in exactly.
var movedField = regexp.MustCompile(`requests\[\d+\]\.(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|capacity)"$`)

// movedFields says of fields that do not exist where they are since v1beta2.
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
	// What cannot be read was not written by a server.
	err := json.Unmarshal(raw, &head)
	return err == nil && (head.Metadata.UID != "" || head.Metadata.ResourceVersion != "")
}

// typed decodes and converts to v1. Unknown are fields that do not exist.
func (r *reader) typed(raw []byte, gvk schema.GroupVersionKind) (object runtime.Object, unknown []error, err error) {
	if gvk.GroupKind() == (schema.GroupKind{Group: resourceapi.GroupName, Kind: "DeviceTaintRule"}) && gvk.Version == "v1alpha3" {
		// What v1 has it has, too. Selectors that only it has are reported as unknown.
		gvk.Version = resourceapi.SchemeGroupVersion.Version
	}
	object, err = scheme.New(gvk)
	if gvk.Group == schedulingapi.GroupName {
		// Versions differ in what groups of pods mean to a scheduler, not in their claims.
		object, err = &schedulingapi.PodGroup{}, nil
	}
	if gvk.Group == policyapi.GroupName {
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
		return object, nil, nil // versions differ in fields that are of no use here
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

// setNamespace gives namespaced objects the default namespace, as kubectl does.
func (r *reader) setNamespace(object runtime.Object) {
	switch object := object.(type) {
	case *corev1.Pod, *resourceapi.ResourceClaim, *resourceapi.ResourceClaimTemplate, *schedulingapi.PodGroup, *policyapi.PodDisruptionBudget, *v1alpha1.DeviceClaim:
		meta := object.(metav1.Object)
		if meta.GetNamespace() == "" {
			meta.SetNamespace(r.options.Namespace)
		}
	case metav1.Object:
		object.SetNamespace("")
	}
}

// setName draws a name for an object that has only the beginning of one, as the API server
// does, but the same each time.
func setName(object runtime.Object, origin Origin) {
	meta, ok := object.(metav1.Object)
	if !ok || meta.GetName() != "" || meta.GetGenerateName() == "" {
		return
	}
	const length = 5
	sum := sha256.Sum256([]byte(origin.String()))
	meta.SetName(meta.GetGenerateName() + rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:length])
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
