// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Objects in which every field is set. Attributes, details and configurations have one of each kind.
const (
	fullPool = `
metadata: {name: p}
spec:
  nodeName: n
  driver: d.example.com
  attributes: [{name: common, stringValue: x}]
  resources: [{name: units, capacity: "8", blockSize: "2"}]
  devices:
  - name: whole
    attributes: [{name: text, stringValue: x}, {name: number, intValue: 1}, {name: amount, quantityValue: 1Gi}, {name: version, semVerValue: 1.2.3}]
    requests: {units: "3"}
  - name: shared
    resources: [{name: bandwidth, capacity: "10", blockSize: "5"}]
status: {availableDevices: 1}
`
	fullClass = `
metadata: {name: c}
spec:
  driver: d.example.com
  deviceType: t
  constraints: device.common == "x"
  adminAccess: true
  configs: [{apiVersion: d.example.com/v1, kind: Config, namespace: ns, name: config}]
`
	plainClass = `
metadata: {name: plain}
spec: {driver: d.example.com, deviceType: plain}
`
	fullClaim = `
metadata: {name: a, namespace: ns}
spec:
  matchAttributes: [common]
  preferredMatchAttributes: [number]
  claims:
  - deviceClass: c
    constraints: device.number == 1
    requests: {count: "1"}
    limits: {count: "2"}
    matchAttributes: [text]
    preferredMatchAttributes: [version]
    configs: [{apiVersion: d.example.com/v1, kind: Config, name: config}]
  - deviceType: plain
  - oneOf: [{deviceClass: plain}]
`
	allocatedClaim = `
metadata: {name: b, namespace: ns}
spec: {claims: [{deviceClass: plain, requests: {bandwidth: "3"}, limits: {count: "1"}}]}
status:
  classConfigs: [{a: b}]
  claimConfigs: [{a: b}]
  allocations: [{devicePoolName: p, deviceName: shared, allocations: [{name: bandwidth, allocation: "5"}]}]
  deviceStatuses:
  - {devicePoolName: p, deviceName: shared, conditions: [{type: Ready}], deviceIP: 10.0.0.1, deviceIPs: [{ip: 10.0.0.1}], deviceInfo: [{a: b}], allocations: [{name: bandwidth, allocation: "5"}]}
  podNames: [pod]
`
)

// unread are fields below deviceStatuses, which is refused as a whole.
var unread = []string{"DeviceStatus", "DeviceIP"}

// TestEveryFieldCounts empties one field after the other: the translation is another one then, or there
// are other reasons against it.
func TestEveryFieldCounts(t *testing.T) {
	all := make(map[string]bool)
	for _, root := range []any{v1alpha1.DevicePool{}, v1alpha1.DeviceClass{}, v1alpha1.DeviceClaim{}} {
		collectFields(reflect.TypeOf(root), all)
	}
	in := fullPrototype(t)
	before, set, counts := outcomeOf(t, in), make(map[string]bool), make(map[string]bool)
	for _, root := range objectsOf(in) {
		emptyEach(reflect.ValueOf(root).Elem(), func(field string) {
			set[field] = true
			counts[field] = counts[field] || outcomeOf(t, in) != before
		})
	}
	if after := outcomeOf(t, in); after != before {
		t.Fatal("the fields were not put back")
	}
	for field := range all {
		typeName, _, _ := strings.Cut(field, ".")
		switch {
		case !set[field]:
			t.Errorf("%s is not set in the objects", field)
		case counts[field] == (typeName == unread[0] || typeName == unread[1]):
			t.Errorf("%s: that it counts is %t", field, counts[field])
		}
	}
}

func fullPrototype(t *testing.T) translate.Prototype {
	t.Helper()
	in := translate.Prototype{
		Pools:   []*v1alpha1.DevicePool{parsed[v1alpha1.DevicePool](t, fullPool)},
		Classes: []*v1alpha1.DeviceClass{parsed[v1alpha1.DeviceClass](t, fullClass), parsed[v1alpha1.DeviceClass](t, plainClass)},
		Claims:  []*v1alpha1.DeviceClaim{parsed[v1alpha1.DeviceClaim](t, fullClaim), parsed[v1alpha1.DeviceClaim](t, allocatedClaim)},
	}
	in.Referents = []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "d.example.com/v1", "kind": "Config", "metadata": map[string]any{"namespace": "ns", "name": "config"},
	}}}
	return in
}

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func objectsOf(in translate.Prototype) (roots []any) {
	for _, pool := range in.Pools {
		roots = append(roots, pool)
	}
	for _, class := range in.Classes {
		roots = append(roots, class)
	}
	for _, claim := range in.Claims {
		roots = append(roots, claim)
	}
	return roots
}

// outcomeOf is both translations, with the reasons against them.
func outcomeOf(t *testing.T, in translate.Prototype) string {
	t.Helper()
	v1, reasons := translate.ToV1(in)
	extended, more := translate.ToExtended(in)
	text, err := json.Marshal([]any{v1, reasons, extended, more})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// emptyEach empties each field of the prototype's types that is set below a value, one at a time, calls
// look with its name, as "Type.field", and puts it back.
func emptyEach(v reflect.Value, look func(field string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			emptyEach(v.Elem(), look)
		}
	case reflect.Slice:
		for i := range v.Len() {
			emptyEach(v.Index(i), look)
		}
	case reflect.Struct:
		if path.Base(v.Type().PkgPath()) != "v1alpha1" || !strings.HasPrefix(v.Type().PkgPath(), "github.com/dray-project/") {
			return
		}
		for i := range v.NumField() {
			field := v.Field(i)
			emptyEach(field, look)
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "" || field.IsZero() {
				continue
			}
			kept := reflect.New(field.Type()).Elem()
			kept.Set(field)
			field.SetZero()
			look(v.Type().Name() + "." + name)
			field.Set(kept)
		}
	}
}
