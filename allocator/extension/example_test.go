// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
)

// What a claim asks for beyond the API is in an annotation.
func ExampleClaim_Annotate() {
	claim := &resourceapi.ResourceClaim{}
	asked := extension.Claim{Preferred: []extension.Preference{{MatchAttribute: "resource.kubernetes.io/pcieRoot"}}}
	if err := asked.Annotate(claim); err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range claim.Annotations {
		fmt.Println(text)
	}
	read, err := extension.Of(claim)
	fmt.Println(read.Preferred[0].MatchAttribute, err)
	// Output:
	// {"preferred":[{"matchAttribute":"resource.kubernetes.io/pcieRoot"}]}
	// resource.kubernetes.io/pcieRoot <nil>
}
