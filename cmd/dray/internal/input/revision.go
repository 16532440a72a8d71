// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// The prototype was published in several revisions under one API version. Dray reads the revision
// in which claims have spec.claims. Other revisions are detected by their fields.
const (
	before = "an earlier revision"
	next   = "the next revision"
	last   = "the last revision"
	some   = "another revision"
)

// mark is a field that only another revision has. In its path, a name with [] is a list, one of
// whose elements has the rest of the path.
type mark struct {
	field, revision string
	// here is the field that dray reads instead.
	here string
}

var marks = map[schema.GroupKind][]mark{
	{Group: v1alpha1.GroupName, Kind: "DevicePool"}: {
		{"spec.sharedResources", next, "spec.resources"},
		{"spec.devices[].sharedResourcesConsumed", next, "spec.devices[].requests"},
		{"spec.devices[].claimResourcesProvided", next, "spec.devices[].resources"},
	},
	{Group: v1alpha1.GroupName, Kind: "DeviceClass"}: {
		{"spec.selector", next, "spec.deviceType, by which claims may ask instead of a class"},
		{"spec.definition", next, "spec.driver, spec.deviceType and spec.constraints"},
		{"spec.maxDeviceCount", before, "limits of claims"},
		{"spec.deviceMaxCount", before, "limits of claims"},
	},
	{Group: v1alpha1.GroupName, Kind: "DeviceClaim"}: {
		{"spec.devices", next, "spec.claims"},
		{"spec.deviceClass", before, "spec.claims[].deviceClass"},
	},
	{Group: corev1.GroupName, Kind: "Pod"}: {
		{"spec.deviceClaims", some, "spec.resourceClaims, with a DeviceClaim as resourceClaimName"},
	},
	{Group: resourceapi.GroupName, Kind: "DeviceClass"}:           {{"requirements", last, "spec.selectors of resource.k8s.io/v1"}},
	{Group: resourceapi.GroupName, Kind: "ResourceClaim"}:         {{"spec.requests", last, "spec.devices.requests of resource.k8s.io/v1"}},
	{Group: resourceapi.GroupName, Kind: "ResourceClaimTemplate"}: {{"spec.spec.requests", last, "spec.spec.devices.requests of resource.k8s.io/v1"}},
}

// replacedKinds are kinds that only another revision has.
var replacedKinds = map[schema.GroupKind]mark{
	{Group: v1alpha1.GroupName, Kind: "DeviceDriver"}:    {"kind", before, "spec.driver of DevicePool and DeviceClass"},
	{Group: resourceapi.GroupName, Kind: "ResourcePool"}: {"kind", last, "ResourceSlice of resource.k8s.io/v1"},
	{Group: resourceapi.GroupName, Kind: "DevicePool"}:   {"kind", last, "ResourceSlice of resource.k8s.io/v1"},
}

func (m mark) err() error {
	return fmt.Errorf("%s: it is of %s of the prototype, which dray does not read: in its place is %s", m.field, m.revision, m.here)
}

// otherRevision returns an error for an object of another revision of the prototype.
func otherRevision(raw []byte, gvk schema.GroupVersionKind) error {
	if m, found := replacedKinds[gvk.GroupKind()]; found {
		return m.err()
	}
	found := marks[gvk.GroupKind()]
	if len(found) == 0 || gvk.Group == corev1.GroupName && !bytes.Contains(raw, []byte(`"deviceClaims"`)) {
		return nil
	}
	if gvk.Group == resourceapi.GroupName && !strings.Contains(gvk.Version, "alpha") {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	for _, m := range found {
		if has(object, strings.Split(m.field, ".")) {
			return m.err()
		}
	}
	if spec, _ := object["spec"].(map[string]any); gvk.Group == v1alpha1.GroupName && gvk.Kind == "DeviceClass" && spec["driver"] != nil && spec["deviceType"] == nil {
		return errors.New("spec.deviceType: required; classes of the next revision of the prototype, which dray does not read, have labels in its place")
	}
	return nil
}

func has(value any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	object, _ := value.(map[string]any)
	name, isList := strings.CutSuffix(path[0], "[]")
	inner, found := object[name]
	if !found || !isList {
		return found && has(inner, path[1:])
	}
	list, _ := inner.([]any)
	for _, element := range list {
		if has(element, path[1:]) {
			return true
		}
	}
	return false
}
