// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Private names that tests use: the reason of pods that were deleted, and options.
const statusTerminatedReason = "Terminated"

var emptyGetOptions metav1.GetOptions
