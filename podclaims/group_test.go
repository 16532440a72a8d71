// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
)

// Claims that a pod names, or that may be those of its group, are not only its own.
func TestOnlyOwn(t *testing.T) {
	named, made := corev1.PodResourceClaim{Name: "c", ResourceClaimName: ptr.To("x")}, corev1.PodResourceClaim{Name: "c", ResourceClaimTemplateName: ptr.To("x")}
	group := &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"none":            {corev1.PodSpec{}, true},
		"none in a group": {corev1.PodSpec{SchedulingGroup: group}, true},
		"made":            {corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{made, made}}, true},
		"made in a group": {corev1.PodSpec{SchedulingGroup: group, ResourceClaims: []corev1.PodResourceClaim{made}}, false},
		"named":           {corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{made, named}}, false},
	} {
		if got := podclaims.OnlyOwn(&corev1.Pod{Spec: test.spec}); got != test.want {
			t.Errorf("%s: only its own %t, want %t", name, got, test.want)
		}
	}
}
