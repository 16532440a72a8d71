// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import "testing"

// The line of dray version has the commit where one is known, and says so if the program is not built of just that.
func TestVersionText(t *testing.T) {
	for want, v := range map[string]versions{
		"dray v1.2.3, Kubernetes API v1.37.2, go1.26.8 linux/amd64":                           {Version: "v1.2.3"},
		"dray v1.2.3, commit abc, Kubernetes API v1.37.2, go1.26.8 linux/amd64":               {Version: "v1.2.3", Commit: "abc"},
		"dray (devel), commit abc with changes, Kubernetes API v1.37.2, go1.26.8 linux/amd64": {Version: "(devel)", Commit: "abc", Modified: true},
	} {
		v.KubernetesAPI, v.Go, v.Platform = "v1.37.2", "go1.26.8", "linux/amd64"
		if got := v.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
