// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"errors"
	"fmt"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// checkAttribute returns an error if an attribute cannot be converted to a CEL value.
func checkAttribute(attribute *resourceapi.DeviceAttribute) error {
	switch kindOf(attribute) {
	case noKind:
		return errors.New("has no value")
	case versionsKind:
		return checkVersions(attribute.VersionValues...)
	case versionKind:
		return checkVersions(*attribute.VersionValue)
	}
	return nil
}

func checkVersions(versions ...string) error {
	for _, text := range versions {
		if _, err := semver.Parse(text); err != nil {
			return fmt.Errorf("%q is not a semantic version: %w", text, err)
		}
	}
	return nil
}

// valueKind is the type of an attribute. The numbers are part of projections.
type valueKind byte

const (
	noKind valueKind = iota
	intKind
	boolKind
	stringKind
	versionKind
	intsKind
	boolsKind
	stringsKind
	versionsKind
)

// String returns the name of the type in expressions.
func (k valueKind) String() string {
	return [...]string{
		"none", "int", "bool", "string", "semver", "list of int", "list of bool", "list of string", "list of semver",
	}[k]
}

// kindOf returns the type of the value that counts. If an attribute has several values, which the API forbids,
// lists come before scalars.
func kindOf(a *resourceapi.DeviceAttribute) valueKind {
	switch {
	case a.IntValues != nil:
		return intsKind
	case a.BoolValues != nil:
		return boolsKind
	case a.StringValues != nil:
		return stringsKind
	case a.VersionValues != nil:
		return versionsKind
	case a.IntValue != nil:
		return intKind
	case a.BoolValue != nil:
		return boolKind
	case a.StringValue != nil:
		return stringKind
	case a.VersionValue != nil:
		return versionKind
	}
	return noKind
}

// attributeValue converts an attribute that passed checkAttribute.
func attributeValue(w *sharedEnv, a *resourceapi.DeviceAttribute) ref.Val {
	switch kindOf(a) {
	case intsKind:
		return w.adapter.NativeToValue(a.IntValues)
	case boolsKind:
		return w.adapter.NativeToValue(a.BoolValues)
	case stringsKind:
		return w.adapter.NativeToValue(a.StringValues)
	case versionsKind:
		versions := make([]apiservercel.Semver, len(a.VersionValues))
		for i, text := range a.VersionValues {
			versions[i] = parsed(text)
		}
		return w.adapter.NativeToValue(versions)
	case intKind:
		return types.Int(*a.IntValue)
	case boolKind:
		return types.Bool(*a.BoolValue)
	case stringKind:
		return types.String(*a.StringValue)
	default:
		return parsed(*a.VersionValue)
	}
}

// parsed returns a version that checkVersions accepted.
func parsed(text string) apiservercel.Semver {
	return apiservercel.Semver{Version: semver.MustParse(text)}
}
