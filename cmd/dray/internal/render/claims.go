// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// claimList is a v1 List of claims, as kubectl writes it.
type claimList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []*resourceapi.ResourceClaim `json:"items"`
}

// claimsOf returns the claims of the placements in their final state, without duplicates, in the
// order of first use.
func claimsOf(placements []*cluster.Placement) claimList {
	list := claimList{
		TypeMeta: metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "List"},
		Items:    []*resourceapi.ResourceClaim{},
	}
	position := make(map[types.NamespacedName]int)
	for _, p := range placements {
		for _, claim := range p.FinalClaims() {
			key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
			typed := typedClaim(claim)
			if i, known := position[key]; known {
				// a later pod only adds to the consumers of a shared claim
				if p.Placed() {
					list.Items[i] = typed
				}
				continue
			}
			position[key] = len(list.Items)
			list.Items = append(list.Items, typed)
		}
	}
	return list
}

// typedClaim returns the claim with kind and apiVersion, which are empty in memory.
func typedClaim(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	typed := *claim
	typed.TypeMeta = metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim"}
	return &typed
}

// ClaimsDocument returns the claims as a document.
func ClaimsDocument(placements []*cluster.Placement) Document {
	list := claimsOf(placements)
	d := Document{Value: list}
	for _, claim := range list.Items {
		d.Items = append(d.Items, claim)
		d.Names = append(d.Names, "resourceclaim.resource.k8s.io/"+claim.Name)
	}
	return d
}
