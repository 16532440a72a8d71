// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/shared"
)

// Shared returns the Model of a manager, the same one for all calls with the same gates. So the profiles of a scheduler see
// each other's claims in flight. The Model is dropped when the contexts of all callers have ended.
func Shared(ctx context.Context, dra fwk.SharedDRAManager, gates pools.Gates) *Model {
	return models.Of(ctx, identity{dra, gates}, func() *Model { return New(dra, gates) })
}

type identity struct {
	dra   fwk.SharedDRAManager
	gates pools.Gates
}

var models shared.Values[identity, *Model]
