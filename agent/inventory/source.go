// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "context"

// Source finds devices.
type Source interface {
	// Run calls report with all devices once it knows them, then again after
	// each change, until ctx is done. It returns nil if ctx is done, and an
	// error if devices can no longer be watched: what was reported last is then
	// unreliable. It does not call report concurrently.
	Run(ctx context.Context, report func(*Inventory)) error
}
