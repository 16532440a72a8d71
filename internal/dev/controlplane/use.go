// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
)

// Use starts a control plane, hands it to a function, and stops it when that returns. If
// the function fails, the folder stays, and the error says where it is; being
// interrupted is no failure.
func Use(ctx context.Context, options Options, use func(*ControlPlane) error) (failure error) {
	plane, err := Start(ctx, options)
	if err != nil {
		return err
	}
	return plane.used(use)
}

func (p *ControlPlane) used(use func(*ControlPlane) error) (failure error) {
	// Programs run on whatever becomes of the function, panics included.
	defer func() { failure = errors.Join(failure, p.Stop()) }()
	err := use(p)
	if err != nil && !errors.Is(err, context.Canceled) {
		p.KeepFolder()
		return fmt.Errorf("%w\nlogs are in %s", err, p.folder)
	}
	return err
}
