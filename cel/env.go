// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// Names that an expression uses.
const (
	deviceName     = "device"
	driverName     = "driver"
	multipleName   = "allowMultipleAllocations"
	attributesName = "attributes"
	capacityName   = "capacity"

	deviceTypeName = "kubernetes.DRADevice"
)

// sharedEnv is what all expressions share. The API server's environment for stored expressions has every feature
// on, so one is enough.
type sharedEnv struct {
	env       *cel.Env
	adapter   types.Adapter
	empty     ref.Val // the result of selecting an unknown domain
	device    *apiservercel.DeclType
	attribute *apiservercel.DeclType
}

var theSharedEnv = sync.OnceValue(newSharedEnv)

func newSharedEnv() *sharedEnv {
	// cel-go labels an error with the node that caused it, also this one, which all programs share. Labelling
	// it here avoids a data race, and the position of an unrelated expression.
	types.LabelErrNode(sharedErrorNode, types.NoSuchOverloadErr())

	device, attribute := deviceTypes()
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 31),
		EnvOptions: []cel.EnvOption{
			cel.Variable(deviceName, device.CelType()),
			ext.Bindings(ext.BindingsVersion(0)),
			library.IncludesOption(),
		},
		DeclTypes: []*apiservercel.DeclType{device},
	})
	if err != nil {
		// Only a programming error above can cause this, as no input is involved.
		panic(fmt.Errorf("CEL environment for devices: %w", err))
	}
	env := set.StoredExpressionsEnv()
	return &sharedEnv{
		env:       env,
		adapter:   env.CELTypeAdapter(),
		empty:     env.CELTypeAdapter().NativeToValue(map[string]any{}),
		device:    device,
		attribute: attribute,
	}
}

// deviceTypes declares the types of the variable and of an attribute. Their sizes are the API's limits and
// determine the cost estimate.
func deviceTypes() (device, attribute *apiservercel.DeclType) {
	const perDevice = resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	domain := sized(apiservercel.StringType, resourceapi.DeviceMaxDomainLength)
	id := sized(apiservercel.StringType, resourceapi.DeviceMaxIDLength)
	mapOf := func(value *apiservercel.DeclType) *apiservercel.DeclType {
		return apiservercel.NewMapType(domain, apiservercel.NewMapType(id, value, perDevice), perDevice)
	}

	// Whether an attribute is a scalar or a list is only known at run time.
	attribute = sized(apiservercel.DynType,
		max(resourceapi.DeviceAttributeMaxValueLength, resourceapi.ResourceSliceMaxAttributeValuesPerDevice))
	fields := make(map[string]*apiservercel.DeclField)
	for name, fieldType := range map[string]*apiservercel.DeclType{
		driverName:     sized(apiservercel.StringType, resourceapi.DriverNameMaxLength),
		multipleName:   sized(apiservercel.BoolType, 1),
		attributesName: mapOf(attribute),
		capacityName:   mapOf(apiservercel.QuantityDeclType),
	} {
		fields[name] = apiservercel.NewDeclField(name, fieldType, true, nil, nil)
	}
	return apiservercel.NewObjectType(deviceTypeName, fields), attribute
}

// sized returns a copy of the type with a limit for the number of characters or elements.
func sized(t *apiservercel.DeclType, limit int64) *apiservercel.DeclType {
	limited := *t
	limited.MaxElements = limit
	return &limited
}
