// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// parseManifest reads the Kubernetes object in YAML below "yaml".
func parseManifest(b block) (any, error) {
	var text strings.Builder
	margin := 0
	for i, line := range b.body {
		if i == 0 {
			margin = line.indent()
		}
		text.WriteString(line.text[min(margin, line.indent()):] + "\n")
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text.String()), &meta); err != nil {
		return nil, err
	}
	object, err := objectOf(meta)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict([]byte(text.String()), object); err != nil {
		return nil, within(meta.Kind, err)
	}
	return typeless(object), nil
}

func objectOf(meta metav1.TypeMeta) (any, error) {
	switch meta.APIVersion + " " + meta.Kind {
	case "v1 Node":
		return &corev1.Node{}, nil
	case "resource.k8s.io/v1 ResourceSlice":
		return &resourceapi.ResourceSlice{}, nil
	case "resource.k8s.io/v1 DeviceClass":
		return &resourceapi.DeviceClass{}, nil
	case "resource.k8s.io/v1 ResourceClaim":
		return &resourceapi.ResourceClaim{}, nil
	}
	return nil, fmt.Errorf("yaml: no use for kind %q of apiVersion %q", meta.Kind, meta.APIVersion)
}

// typeless removes apiVersion and kind, as clients do after decoding.
func typeless(object any) any {
	*typeMeta(object) = metav1.TypeMeta{}
	return object
}

func typeMeta(object any) *metav1.TypeMeta {
	switch o := object.(type) {
	case *corev1.Node:
		return &o.TypeMeta
	case *resourceapi.ResourceSlice:
		return &o.TypeMeta
	case *resourceapi.DeviceClass:
		return &o.TypeMeta
	case *resourceapi.ResourceClaim:
		return &o.TypeMeta
	}
	return nil
}

func writeManifest(object any) ([]string, error) {
	apiVersion, kind := "resource.k8s.io/v1", ""
	switch object.(type) {
	case *corev1.Node:
		apiVersion, kind = "v1", "Node"
	case *resourceapi.ResourceSlice:
		kind = "ResourceSlice"
	case *resourceapi.DeviceClass:
		kind = "DeviceClass"
	case *resourceapi.ResourceClaim:
		kind = "ResourceClaim"
	}
	fields, err := plain(object)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return append([]string{"yaml"}, indented(lines)...), nil
}

// plain returns an object as nested maps, with numbers as they are written.
func plain(object any) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if status, ok := fields["status"].(map[string]any); ok && len(status) == 0 {
		delete(fields, "status")
	}
	return fields, nil
}

// sameObject compares objects in their JSON form.
func sameObject(a, b any) bool {
	fieldsA, errA := plain(a)
	fieldsB, errB := plain(b)
	return errA == nil && errB == nil && reflect.DeepEqual(fieldsA, fieldsB)
}
