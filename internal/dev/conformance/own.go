// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"path/filepath"
)

// own are tests of this repository, in a module of their own, that run a counterpart beside Dray or ask both the same.
type own struct {
	// folder is that of the module, below the checkout.
	folder string
	// flags are those of go test.
	flags []string
}

// answersDiffer is what a test of this repository prints that passes although the counterpart has another answer than Dray.
// It counts as a difference, which has to be known.
const answersDiffer = "CONFORMANCE answers differ:"

// run runs the tests, and returns the version of the counterpart that they are built with.
func (o *own) run(ctx context.Context, part Part, checkout string) (*Result, error) {
	folder := filepath.Join(checkout, o.folder)
	counterpart, err := version(ctx, part, folder)
	if err != nil {
		return nil, err
	}
	outcomes, err := test(ctx, folder, append([]string{"-vet=off", "-count=1", "-json"}, o.flags...)...)
	if err != nil {
		return nil, err
	}
	return &Result{Part: part, Version: counterpart, Outcomes: outcomes}, nil
}
