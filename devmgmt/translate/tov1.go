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

// toV1 is the state of a translation to v1.
type toV1 struct {
	vocabularies vocabularies
	classes      map[string]*v1alpha1.DeviceClass
	byType       map[string][]*v1alpha1.DeviceClass // without admin access, sorted by name
	pools        map[string]*v1alpha1.DevicePool
	referents    referents
	programs     *cel.Cache
	// naming is extended if claims may use the annotation of package extension.
	naming
	// common has the attributes that claims compare over devices of several drivers.
	common map[string]bool
}

// fewPrograms is the size of the cache of expressions. Most expressions occur once.
const fewPrograms = 64

// ToV1 translates to v1. The reasons name what v1 cannot express. Without reasons, the translation
// is complete.
func ToV1(in Prototype) (V1, []Reason) { return translateToV1(in, false) }

// ToExtended is ToV1 for an allocator that supports package extension. What v1 cannot express is in
// that package's annotation on claims, as far as the package can express it. Names of attributes
// and resources may have characters that v1 forbids. Attributes that claims compare over devices of
// several drivers are also published in the domain of the prototype's group. An API server would
// refuse such objects.
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
	// Claims determine which common attributes pools have to publish.
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

// selector checks a translated expression as the API server would.
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
