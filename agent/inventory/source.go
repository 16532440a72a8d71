// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "context"

// Source finds devices.
type Source interface {
	// Run calls report with all devices once they are known, and again after each change, until ctx
	// is done. It then returns nil. It returns an error if devices can no longer be observed, so
	// that the last report is unreliable. It does not call report concurrently.
	Run(ctx context.Context, report func(*Inventory)) error
}
