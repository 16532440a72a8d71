// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dray-project/dray/devmgmt/expression"
	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// normal is the input in the words in which it comes back from v1. Each line is one of the rules
// in docs/devmgmt.md.
func normal(in translate.Prototype) translate.Prototype {
	var out translate.Prototype
	used := false
	for _, pool := range in.Pools {
		out.Pools = append(out.Pools, normalPool(pool.DeepCopy()))
	}
	for _, class := range in.Classes {
		class = class.DeepCopy()
		class.Spec.Constraints = normalExpression(class.Spec.Constraints)
		if class.Spec.AdminAccess != nil && !*class.Spec.AdminAccess {
			class.Spec.AdminAccess = nil // the default
		}
		used = used || len(class.Spec.Configs) > 0
		out.Classes = append(out.Classes, class)
	}
	for _, claim := range in.Claims {
		claim = claim.DeepCopy()
		for i := range claim.Spec.Claims {
			instance := &claim.Spec.Claims[i]
			if len(instance.OneOf) == 0 {
				used = normalDetail(&instance.DeviceClaimDetail) || used
			}
			for j := range instance.OneOf {
				used = normalDetail(&instance.OneOf[j]) || used
			}
		}
		out.Claims = append(out.Claims, claim)
	}
	if out.Referents = []*unstructured.Unstructured(nil); used {
		out.Referents = in.Referents // what nothing refers to is not translated
	}
	return out
}

func normalPool(pool *v1alpha1.DevicePool) *v1alpha1.DevicePool {
	spec := &pool.Spec
	byName := func(a, b v1alpha1.Attribute) int { return cmp.Compare(a.Name, b.Name) }
	// Attributes of the pool are those that all devices have.
	for i := range spec.Devices {
		device := &spec.Devices[i]
		for _, attribute := range spec.Attributes {
			if !slices.ContainsFunc(device.Attributes, func(own v1alpha1.Attribute) bool { return own.Name == attribute.Name }) {
				device.Attributes = append(device.Attributes, attribute)
			}
		}
		slices.SortFunc(device.Attributes, byName)
	}
	var common []v1alpha1.Attribute
	for _, attribute := range spec.Devices[0].Attributes {
		n := 0
		for i := range spec.Devices {
			if slices.ContainsFunc(spec.Devices[i].Attributes, attribute.Equal) {
				n++
			}
		}
		if n == len(spec.Devices) {
			common = append(common, attribute)
		}
	}
	spec.Attributes = common
	for i := range spec.Devices {
		device := &spec.Devices[i]
		device.Attributes = slices.DeleteFunc(device.Attributes, func(own v1alpha1.Attribute) bool { return slices.ContainsFunc(common, own.Equal) })
		// What is taken of the pool is in whole blocks.
		for _, r := range spec.Resources {
			if amount, found := device.Requests[r.Name]; found {
				device.Requests[r.Name] = *resource.NewDecimalQuantity(*blocks(amount, r), amount.Format)
			}
		}
	}
	for i := range spec.Resources {
		spec.Resources[i].BlockSize = quantityOf("1")
	}
	slices.SortFunc(spec.Resources, func(a, b v1alpha1.ResourceCapacity) int { return cmp.Compare(a.Name, b.Name) })
	return pool
}

func normalExpression(text *string) *string {
	if text == nil {
		return nil
	}
	normal, err := expression.Normal(*text)
	if err != nil {
		panic(err)
	}
	return &normal
}

// normalDetail reports whether the detail has configuration.
func normalDetail(detail *v1alpha1.DeviceClaimDetail) bool {
	detail.Constraints = normalExpression(detail.Constraints)
	if _, found := detail.Requests[v1alpha1.ResourceCount]; !found {
		detail.Requests[v1alpha1.ResourceCount] = resource.MustParse("1") // the default
	} else if len(detail.Requests) == 1 {
		detail.Limits = nil // it is the same as the request
	}
	return len(detail.Configs) > 0
}
