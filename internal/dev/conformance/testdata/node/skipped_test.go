// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func testTerminalStatePodScenario(_ context.Context, t *testing.T, _ *system, _ corev1.PodPhase) {
	t.Skip("it waits for a private queue")
}
