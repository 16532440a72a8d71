// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/expression"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

func (t *toV1) class(class *v1alpha1.DeviceClass) (*resourceapi.DeviceClass, []Reason) {
	l := lossesOf("DeviceClass", class)
	spec := &class.Spec
	if len(spec.Driver) > resourceapi.DriverNameMaxLength {
		l.whole(specPath.Child("driver"), "v1 allows %d characters", resourceapi.DriverNameMaxLength)
	}
	for _, name := range []string{DeviceTypeAnnotation, AdminAccessAnnotation} {
		if _, found := class.Annotations[name]; found {
			l.drop(metadataPath.Child("annotations").Key(name), "the translation has a meaning of its own for it")
		}
	}
	translated := &resourceapi.DeviceClass{
		TypeMeta: typeMeta("DeviceClass"), ObjectMeta: metadata(class.ObjectMeta, DeviceTypeAnnotation, AdminAccessAnnotation),
	}
	setAnnotation(&translated.ObjectMeta, DeviceTypeAnnotation, spec.DeviceType)
	if ptr.Deref(spec.AdminAccess, false) {
		setAnnotation(&translated.ObjectMeta, AdminAccessAnnotation, "true")
	}
	translated.Spec.Selectors = append(
		[]resourceapi.DeviceSelector{celSelector(driverSelector(spec.Driver))},
		t.constraints(spec.Constraints, spec.Driver, specPath.Child("constraints"), l)...)
	for i, config := range spec.Configs {
		at := specPath.Child("configs").Index(i)
		if i >= resourceapi.DeviceConfigMaxSize {
			l.drop(at, "v1 allows %d", resourceapi.DeviceConfigMaxSize)
			continue
		}
		opaque, err := t.referents.opaque(spec.Driver, referent(config))
		if err != nil {
			l.drop(at, "%v", err)
			continue
		}
		translated.Spec.Config = append(translated.Spec.Config, resourceapi.DeviceClassConfiguration{DeviceConfiguration: opaque})
	}
	if l.fatal() {
		return nil, l.list
	}
	return translated, l.list
}

func driverSelector(driver string) string { return fmt.Sprintf("device.driver == %q", driver) }

func celSelector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// constraints translates the expression of a class or of a claim for devices of the driver. It
// returns no selector if there is no expression, or no translation.
func (t *toV1) constraints(text *string, driver string, at *field.Path, l *losses) []resourceapi.DeviceSelector {
	if text == nil {
		return nil
	}
	v := t.vocabularies.of(driver)
	translated, err := expression.ToV1(*text, func(name string) (expression.Place, error) { return v.place(name, driver, t.naming) })
	if err == nil {
		err = t.selector(translated)
	}
	if err != nil {
		l.drop(at, "%s", oneLine(err))
		return nil
	}
	return []resourceapi.DeviceSelector{celSelector(translated)}
}
