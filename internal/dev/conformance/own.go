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
	// newerGo is set if the counterpart needs a later Go than the other modules. Then the go command gets the one that go.mod
	// of the folder names, from the module proxy, though the environment may say GOTOOLCHAIN=local.
	newerGo bool
}

// answersDiffer is what a test of this repository prints that passes although the counterpart has another answer than Dray.
// It counts as a difference, which has to be known.
const answersDiffer = "CONFORMANCE answers differ:"

// run runs the tests, and returns the version of the counterpart that they are built with.
func (o *own) run(ctx context.Context, part Part, checkout string) (*Result, error) {
	folder := filepath.Join(checkout, o.folder)
	var environment []string
	if o.newerGo {
		environment = append(environment, "GOTOOLCHAIN=auto")
	}
	counterpart, err := version(ctx, part, folder, environment...)
	if err != nil {
		return nil, err
	}
	outcomes, err := test(ctx, folder, environment, append([]string{"-vet=off", "-count=1", "-json"}, o.flags...)...)
	if err != nil {
		return nil, err
	}
	return &Result{Part: part, Version: counterpart, Outcomes: outcomes}, nil
}
