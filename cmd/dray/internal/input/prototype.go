// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// prototypeKind tells kinds of devmgmtproto.k8s.io from those of resource.k8s.io in the list of
// what was read.
func prototypeKind(kind string) string { return kind + "." + v1alpha1.GroupName }

// countConfiguration has objects that are referred to not count as ignored.
func (r *reader) countConfiguration() {
	for _, object := range r.objects.Prototype.Configuration() {
		kind := object.GroupVersionKind().GroupKind().String()
		if r.objects.Ignored[kind]--; r.objects.Ignored[kind] == 0 {
			delete(r.objects.Ignored, kind)
		}
	}
}

// translate adds what objects of devmgmtproto.k8s.io mean in resource.k8s.io/v1, with what the
// allocator knows beyond it. What of them has no translation is wrong, unless it only reports something: it would be allocated otherwise than
// its author wants.
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

// addTranslated files an object that was made from another, which may be unusable.
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
