// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// toV1 is one translation to v1.
type toV1 struct {
	vocabularies vocabularies
	classes      map[string]*v1alpha1.DeviceClass
	byType       map[string][]*v1alpha1.DeviceClass // without admin access, sorted by name
	pools        map[string]*v1alpha1.DevicePool
	referents    referents
	programs     *cel.Cache
	// naming is extended if claims may ask for what v1 cannot say, in the annotation of package
	// extension.
	naming
	// common are the attributes that claims compare of devices of several drivers.
	common map[string]bool
}

// fewPrograms is enough for the expressions of one translation, most of which occur once.
const fewPrograms = 64

// ToV1 translates to v1. Reasons say what of the input v1 cannot say. Without any, the
// translation is complete.
func ToV1(in Prototype) (V1, []Reason) { return translateToV1(in, false) }

// ToExtended is ToV1 for an allocator that knows package extension: what claims ask for beyond v1
// is in their annotation, as far as the package can say it. Names of attributes and resources may have
// characters that v1 does not allow, and what claims compare of devices of several drivers is
// published under the domain of the prototype's group, too: an API server would refuse such objects.
func ToExtended(in Prototype) (V1, []Reason) { return translateToV1(in, true) }

func translateToV1(in Prototype, extended bool) (V1, []Reason) {
	t := &toV1{
		naming:       naming{extended},
		common:       make(map[string]bool),
		vocabularies: vocabulariesOf(in.Pools),
		classes:      make(map[string]*v1alpha1.DeviceClass, len(in.Classes)),
		byType:       make(map[string][]*v1alpha1.DeviceClass),
		pools:        make(map[string]*v1alpha1.DevicePool, len(in.Pools)),
		referents:    referentsOf(in.Referents),
		programs:     cel.NewCache(fewPrograms),
	}
	for _, class := range in.Classes {
		t.classes[class.Name] = class
		if !ptr.Deref(class.Spec.AdminAccess, false) {
			t.byType[class.Spec.DeviceType] = append(t.byType[class.Spec.DeviceType], class)
		}
	}
	for _, classes := range t.byType {
		slices.SortFunc(classes, func(a, b *v1alpha1.DeviceClass) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, pool := range in.Pools {
		t.pools[pool.Name] = pool
	}
	var out V1
	var reasons, ofClaims []Reason
	// Claims say what is compared, which pools have to publish.
	for _, claim := range in.Claims {
		translated, lost := t.claim(claim)
		if ofClaims = append(ofClaims, lost...); translated != nil {
			out.Claims = append(out.Claims, translated)
		}
	}
	for _, pool := range in.Pools {
		slices, lost := t.slices(pool)
		out.Slices, reasons = append(out.Slices, slices...), append(reasons, lost...)
	}
	for _, class := range in.Classes {
		translated, lost := t.class(class)
		if reasons = append(reasons, lost...); translated != nil {
			out.Classes = append(out.Classes, translated)
		}
	}
	return out, append(reasons, ofClaims...)
}

// selector compiles what an expression has become, as the API server would.
func (t *toV1) selector(expression string) error {
	program, err := t.programs.Selector(expression)
	if err != nil {
		return err
	}
	if cost := program.MaxCost(); cost > resourceapi.CELSelectorExpressionMaxCost {
		return fmt.Errorf("evaluating it may cost %d on a single device, v1 allows %d", cost, resourceapi.CELSelectorExpressionMaxCost)
	}
	return nil
}
