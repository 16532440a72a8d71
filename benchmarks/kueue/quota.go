// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/dra"

	"github.com/dray-project/dray/allocator/charge"
)

// workload is a pod with a claim from each of some templates, in a cluster.
type workload struct {
	reader
	mappings []charge.Mapping
	claims   []*resourceapi.ResourceClaimSpec
	pod      corev1.PodSpec
}

// podSet is the name of the only set of pods of a workload.
const podSet = "main"

// counted is what kueue counts for one pod: what its controller of workloads adds up of the answers of pkg/dra, and the error for
// which it does not admit the workload.
func (w *workload) counted(ctx context.Context) (corev1.ResourceList, error) {
	mapper := dra.NewResourceMapper()
	if err := mapper.PopulateFromConfiguration(configured(w.mappings)); err != nil {
		return nil, err
	}
	object := w.object()
	cache := dra.NewResourceSliceCache(&w.reader)
	list := corev1.ResourceList{}
	type answer = map[kueueapi.PodSetReference]corev1.ResourceList
	for _, ask := range []func() (answer, field.ErrorList){
		func() (answer, field.ErrorList) {
			return dra.GetResourceRequestsForResourceClaimTemplates(ctx, &w.reader, cache, mapper, object)
		},
		func() (answer, field.ErrorList) {
			extended, _, errs := dra.ResolveExtendedResourceQuota(ctx, &w.reader, mapper, object)
			return extended, errs
		},
		func() (answer, field.ErrorList) {
			return dra.GetCounterResourcesForWorkload(ctx, &w.reader, cache, mapper, object)
		},
		func() (answer, field.ErrorList) {
			return dra.DetermineCapacityResourcesForWorkload(ctx, &w.reader, cache, mapper, object)
		},
	} {
		part, errs := ask()
		if len(errs) > 0 {
			return nil, errs.ToAggregate()
		}
		add(list, part[podSet])
	}
	return list, nil
}

// object is the workload as kueue has it.
func (w *workload) object() *kueueapi.Workload {
	object := &kueueapi.Workload{}
	object.Namespace, object.Name = "default", "workload"
	spec := *w.pod.DeepCopy()
	w.templates = make(map[string]*resourceapi.ResourceClaimTemplate, len(w.claims))
	for i, claim := range w.claims {
		template := &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: *claim}}
		template.Namespace, template.Name = object.Namespace, fmt.Sprint("claim-", i)
		w.templates[template.Name] = template
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{Name: template.Name, ResourceClaimTemplateName: &template.Name})
	}
	object.Spec.PodSets = []kueueapi.PodSet{{Name: podSet, Count: 1, Template: corev1.PodTemplateSpec{Spec: spec}}}
	return object
}

// add adds quantities to those of a list.
func add(list, part corev1.ResourceList) {
	for name, quantity := range part {
		sum := list[name].DeepCopy()
		sum.Add(quantity)
		list[name] = sum
	}
}

// configured are mappings as kueue's configuration has them.
func configured(mappings []charge.Mapping) []configapi.DeviceClassMapping {
	list := make([]configapi.DeviceClassMapping, len(mappings))
	for i, m := range mappings {
		list[i].Name = m.Resource
		for _, class := range m.Classes {
			list[i].DeviceClassNames = append(list[i].DeviceClassNames, corev1.ResourceName(class))
		}
		for _, s := range m.Sources {
			var selector resourceapi.DeviceSelector
			if s.Selector != "" {
				selector.CEL = &resourceapi.CELDeviceSelector{Expression: s.Selector}
			}
			var source configapi.DeviceClassSourceConfig
			if s.Counter != "" {
				source.Counter = &configapi.DeviceClassCounterSource{Name: s.Counter, Driver: s.Driver, DeviceSelector: selector}
			} else {
				source.Capacity = &configapi.DeviceClassCapacitySource{Name: s.Capacity, Driver: s.Driver, DeviceSelector: selector}
			}
			list[i].Sources = append(list[i].Sources, source)
		}
	}
	return list
}
