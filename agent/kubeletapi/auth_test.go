// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
)

// TestAuthorities: there may be no file of certificate authorities, but one that is named must have some.
func TestAuthorities(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, fine := range map[string]bool{"": true, empty: false, empty + ".gone": false} {
		auth, err := newAuth(t.Context(), "node-1", fake.NewClientset(), path)
		if (err == nil) != fine || fine && auth == nil {
			t.Errorf("%q: %v, %v; want that it is accepted: %t", path, auth, err, fine)
		}
	}
}
