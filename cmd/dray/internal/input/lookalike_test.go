// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The suggestion is by kind, or by group if there is no such kind.
func TestLookAlike(t *testing.T) {
	for given, want := range map[schema.GroupKind]string{
		{Group: "resource.k8s.io", Kind: "ResourceClaims"}: "ResourceClaim.resource.k8s.io",
		{Group: "resources.k8s.io", Kind: "ResourceClaim"}: "ResourceClaim.resource.k8s.io",
		{Group: "resources.k8s.io", Kind: "Widget"}:        "group resource.k8s.io",
		{Group: "widgets.example.com", Kind: "Widget"}:     "",
		{Group: "", Kind: "pods"}:                          "Pod",
		{Group: "", Kind: "Pood"}:                          "",
		{Group: "resource.k8s.io", Kind: "DeviceClas"}:     "DeviceClass.resource.k8s.io",
	} {
		got, found := lookAlike(given)
		if got != want || found != (want != "") {
			t.Errorf("%s: %q (%t), want %q", given, got, found, want)
		}
	}
}
