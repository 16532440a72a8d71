// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/expression"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

func (t *fromV1) class(class *resourceapi.DeviceClass) (*v1alpha1.DeviceClass, []Reason) {
	l := lossesOf("DeviceClass", class)
	translated := &v1alpha1.DeviceClass{
		TypeMeta: prototypeMeta("DeviceClass"), ObjectMeta: metadata(class.ObjectMeta, DeviceTypeAnnotation, AdminAccessAnnotation),
	}
	spec := &translated.Spec
	// v1 has no device types, so the class may be the only one of a type of its own.
	if spec.DeviceType = class.Annotations[DeviceTypeAnnotation]; spec.DeviceType == "" {
		spec.DeviceType = class.Name
	}
	if class.Annotations[AdminAccessAnnotation] == "true" {
		spec.AdminAccess = ptr.To(true)
	}
	refuse(l, specPath, &class.Spec, "selectors", "config")
	selectors, at := class.Spec.Selectors, specPath.Child("selectors")
	if len(selectors) == 0 || selectors[0].CEL == nil {
		l.whole(at, "the prototype wants to know the driver of a class")
		return nil, l.list
	}
	driver, rest, err := expression.SplitDriver(selectors[0].CEL.Expression)
	if err != nil {
		l.whole(at.Index(0), "the prototype wants to know the driver of a class: %s", oneLine(err))
		return nil, l.list
	}
	spec.Driver = driver
	selectors = selectors[1:]
	if rest != "" {
		selectors = append([]resourceapi.DeviceSelector{celSelector(rest)}, selectors...)
	}
	spec.Constraints = t.constraints(selectors, driver, at, l)
	for i, config := range class.Spec.Config {
		r, err := t.found.refer(driver, config.DeviceConfiguration)
		if err == nil && r.Namespace == "" {
			err = fmt.Errorf("%s has no namespace", r)
		}
		if err != nil {
			l.drop(specPath.Child("config").Index(i), "%v", err)
			continue
		}
		spec.Configs = append(spec.Configs, v1alpha1.DeviceClassConfigReference(r))
	}
	return translated, l.list
}

// constraints translates selectors for devices of the driver. The prototype has only one
// expression, and two cannot be joined by &&. If the first returns an error, v1 does not evaluate
// the second; as an operand of &&, it would be evaluated.
func (t *fromV1) constraints(selectors []resourceapi.DeviceSelector, driver string, at *field.Path, l *losses) *string {
	if len(selectors) == 0 {
		return nil
	}
	if len(selectors) > 1 || selectors[0].CEL == nil {
		l.drop(at, "the prototype has one expression")
		return nil
	}
	translated, err := expression.FromV1(selectors[0].CEL.Expression, func(p expression.Place) (string, error) {
		if strings.Contains(p.Domain, "/") {
			return "", fmt.Errorf("%s is no domain", p.Domain)
		}
		return nameOf(p.Domain, p.ID, driver), nil
	})
	if err != nil {
		l.drop(at, "%s", oneLine(err))
		return nil
	}
	return &translated
}
