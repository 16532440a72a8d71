// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest_test

import (
	"fmt"

	"github.com/dray-project/dray/alloctest"
)

// A scenario is data: a cluster, claims, and the outcome in words.
func ExampleParse() {
	scenarios, err := alloctest.Parse("nics", `# A NIC that is in use is not allocated again.
cluster
node node-1
class nic where device.driver == "nic.example.com"
slice nic.example.com/node-1 on node-1
  eth-[0..1]
running/nic -> nic.example.com/node-1/eth-0
----

allocate the-other-one
claim uplink
  request nic class=nic
----
uplink/nic -> nic.example.com/node-1/eth-1
uplink on node-1
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range scenarios {
		fmt.Println(s.Name, "on", s.Case.Node, "with", len(s.Case.Slices), "slice")
		fmt.Print(s.Expected)
	}
	// Output:
	// the-other-one on node-1 with 1 slice
	// uplink/nic -> nic.example.com/node-1/eth-1
	// uplink on node-1
}

// The scenarios of the suite, for those who want them without a *testing.T.
func ExampleScenarios() {
	for s := range alloctest.Scenarios() {
		if s.Name == "newest-generation-serves" {
			fmt.Println(s.File, s.Rules)
		}
	}
	// Output: pools-generation [pools.generation]
}
