// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"github.com/dray-project/dray/internal/dev/given"
)

// manyPools are n slices, each the only one of a pool of its own.
func manyPools(name string, n int) objects {
	var list objects
	for i := range n {
		pool := fmt.Sprintf("%s-%d", name, i)
		list = append(list, given.Slice(pool, pool, given.OnNode(pool), given.Devices("d")))
	}
	return list
}
