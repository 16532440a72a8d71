// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// prototypeKind returns the key of a kind of devmgmtproto.k8s.io, which differs from that of the
// same kind in resource.k8s.io.
func prototypeKind(kind string) string { return kind + "." + v1alpha1.GroupName }

// countConfiguration removes objects that prototype objects refer to from the count of ignored
// objects.
func (r *reader) countConfiguration() {
	for _, object := range r.objects.Prototype.Configuration() {
		kind := object.GroupVersionKind().GroupKind().String()
		if r.objects.Ignored[kind]--; r.objects.Ignored[kind] == 0 {
			delete(r.objects.Ignored, kind)
		}
	}
}

// translate adds the translations of prototype objects to resource.k8s.io/v1, with the allocator's
// extensions. Fields without a translation are errors, except those that only report a state.
// Otherwise the allocation would differ from what the author wants.
func (r *reader) translate() {
	translated, reasons := translate.ToExtended(r.objects.Prototype)
	unusable := make(map[key]bool)
	for _, reason := range reasons {
		if reason.Report {
			continue
		}
		at := key{prototypeKind(reason.Kind), reason.Namespace, reason.Name}
		if !r.object(r.objects.known[at].origin, reason) {
			unusable[at] = true
		}
	}
	for _, slice := range translated.Slices {
		r.addTranslated(slice, key{kind: prototypeKind("DevicePool"), name: slice.Spec.Pool.Name}, unusable)
	}
	for _, class := range translated.Classes {
		r.addTranslated(class, key{kind: prototypeKind("DeviceClass"), name: class.Name}, unusable)
	}
	for _, claim := range translated.Claims {
		r.addTranslated(claim, key{prototypeKind("DeviceClaim"), claim.Namespace, claim.Name}, unusable)
	}
}

// addTranslated adds the translation of an object. unusable has the objects that are not used.
func (r *reader) addTranslated(object runtime.Object, from key, unusable map[key]bool) {
	if unusable[from] {
		return
	}
	origin := r.objects.known[from].origin
	SetDefaults(object)
	if !r.isTranslationValid(object, from, origin) {
		return
	}
	if err := r.objects.add(object, origin); err != nil {
		r.errs = append(r.errs, err)
	}
}
