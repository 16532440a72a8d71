// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// referent identifies an object with configuration.
type referent v1alpha1.DeviceClassConfigReference

// String returns "Kind namespace/name of apiVersion".
func (r referent) String() string {
	return fmt.Sprintf("%s %s/%s of %s", r.Kind, r.Namespace, r.Name, r.APIVersion)
}

func referentOf(object *unstructured.Unstructured) referent {
	return referent{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// inNamespace returns the object that a claim in the namespace refers to.
func inNamespace(r v1alpha1.DeviceConfigReference, namespace string) referent {
	return referent{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: namespace, Name: r.Name}
}

type referents map[referent]*unstructured.Unstructured

func referentsOf(objects []*unstructured.Unstructured) referents {
	known := make(referents, len(objects))
	for _, object := range objects {
		known[referentOf(object)] = object
	}
	return known
}

// Configuration returns the existing objects to which classes and claims refer.
func (in Prototype) Configuration() []*unstructured.Unstructured {
	known, wanted := referentsOf(in.Referents), make(map[referent]bool)
	for _, class := range in.Classes {
		for _, config := range class.Spec.Configs {
			wanted[referent(config)] = true
		}
	}
	want := func(claim *v1alpha1.DeviceClaim, detail *v1alpha1.DeviceClaimDetail) {
		for _, config := range detail.Configs {
			wanted[inNamespace(config, claim.Namespace)] = true
		}
	}
	for _, claim := range in.Claims {
		for i := range claim.Spec.Claims {
			want(claim, &claim.Spec.Claims[i].DeviceClaimDetail)
			for j := range claim.Spec.Claims[i].OneOf {
				want(claim, &claim.Spec.Claims[i].OneOf[j])
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(in.Referents), func(object *unstructured.Unstructured) bool {
		r := referentOf(object)
		return !wanted[r] || known[r] != object
	})
}

// opaque returns the whole object as opaque parameters for the driver, since v1 has no references.
func (known referents) opaque(driver string, r referent) (resourceapi.DeviceConfiguration, error) {
	object := known[r]
	if object == nil {
		return resourceapi.DeviceConfiguration{}, fmt.Errorf("%s is not there: v1 has configuration itself, not references to it", r)
	}
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return resourceapi.DeviceConfiguration{}, fmt.Errorf("%s: %w", r, err)
	}
	if len(raw) > resourceapi.OpaqueParametersMaxLength {
		return resourceapi.DeviceConfiguration{}, fmt.Errorf("%s has %d bytes, v1 allows %d", r, len(raw), resourceapi.OpaqueParametersMaxLength)
	}
	parameters := &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: raw}}
	return resourceapi.DeviceConfiguration{Opaque: parameters}, nil
}

// refer is the reverse of opaque: it returns a reference, and adds the referenced object.
func (known referents) refer(driver string, config resourceapi.DeviceConfiguration) (referent, error) {
	if config.Opaque == nil {
		return referent{}, fmt.Errorf("has no opaque parameters")
	}
	if config.Opaque.Driver != driver {
		return referent{}, fmt.Errorf("is for driver %s, the prototype has configuration for the driver of the class, %s, only", config.Opaque.Driver, driver)
	}
	object := &unstructured.Unstructured{}
	// decodes whole numbers as integers
	if err := utiljson.Unmarshal(config.Opaque.Parameters.Raw, &object.Object); err != nil {
		return referent{}, fmt.Errorf("is no object: %w", err)
	}
	r := referentOf(object)
	if r.APIVersion == "" || r.Kind == "" || r.Name == "" {
		return r, fmt.Errorf("has no apiVersion, kind and metadata.name by which to refer to it")
	}
	if other := known[r]; other != nil && !sameObject(other, object) {
		return r, fmt.Errorf("%s occurs twice with different content", r)
	}
	known[r] = object
	return r, nil
}

func sameObject(a, b *unstructured.Unstructured) bool {
	one, errOne := json.Marshal(a.Object)
	two, errTwo := json.Marshal(b.Object)
	return errOne == nil && errTwo == nil && string(one) == string(two)
}
