// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead reads arbitrary bytes: no panic, no hang, and either objects or an error.
// Reading the same twice gives the same.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"../../../../examples/*/*.yaml", "../cli/testdata/input/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("%s: %d seeds, error %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			const enough = 1 << 14 // mutations of large seeds find little
			f.Add(content[:min(len(content), enough)])
		}
	}
	f.Add([]byte("--- {apiVersion: v1, kind: List, items: [{kind: List}, 1, null, [x]]}\n...\n%YAML 1.2\n---\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Node"}{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceSliceList","items":[{}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		objects, err := Read([]string{Stdin}, bytes.NewReader(content), Options{})
		if (objects == nil) == (err == nil) {
			t.Fatalf("objects %v and error %v", objects, err)
		}
		_, again := Read([]string{Stdin}, bytes.NewReader(content), Options{})
		if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("first %v, then %v", err, again)
		}
	})
}
