// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"os"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
)

var withDray = os.Getenv("CONFORMANCE_WITH_DRAY") != ""

// words returns what the plugin says that is run, of what both say in words of their own.
func words(tCtx ktesting.TContext, inTree, dray string) string {
	tCtx.Helper()
	if !withDray {
		return inTree
	}
	tCtx.Logf("CONFORMANCE in other words: %q, expected %q", dray, inTree)
	return dray
}

// message matches the whole message of the in-tree plugin, or what Dray's has in any case: it
// also says what devices there are, and other tests add some.
func message(inTree, dray string) types.GomegaMatcher {
	if !withDray {
		return gomega.Equal(inTree)
	}
	return gomega.ContainSubstring(dray)
}
