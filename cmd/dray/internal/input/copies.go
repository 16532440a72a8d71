// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isMadeOf reports whether an object of a cluster is what the API server has made of a manifest. It
// then has all that the manifest has, and defaults and other additions beside that. Manifests are
// often read together with a dump of the cluster to which they were applied.
func isMadeOf(stored, manifest metav1.Object) bool {
	if stored.GetUID() == "" || manifest.GetUID() != "" {
		return false
	}
	all, given := members(stored), members(manifest)
	for _, field := range []string{"apiVersion", "kind", "status"} {
		delete(given, field) // the version may be another one, and manifests have no status
	}
	return all != nil && given != nil && contains(all, given)
}

// members returns the fields of an object as in JSON, nil if it cannot be encoded.
func members(object metav1.Object) map[string]any {
	var fields map[string]any
	raw, err := json.Marshal(object)
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}

// contains reports whether a value has all of another one: fields of objects, and the first elements
// of lists.
func contains(all, given any) bool {
	switch given := given.(type) {
	case nil:
		return true
	case map[string]any:
		fields, isObject := all.(map[string]any)
		for name, value := range given {
			if !isObject || !contains(fields[name], value) {
				return false
			}
		}
		return isObject || len(given) == 0
	case []any:
		list, _ := all.([]any)
		if len(list) < len(given) {
			return false
		}
		for i, value := range given {
			if !contains(list[i], value) {
				return false
			}
		}
		return true
	}
	return all == given
}
