// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package invariant checks what must hold of the claims of a cluster at every moment,
// whoever allocates and whatever fails: no device is held twice, unless it may be; shares
// and partitions do not add up to more than there is; what is allocated has been
// published, and claims are reserved only for pods that have been created.
//
// [Check] judges one state of the cluster. A [Watcher] applies it to every state that the
// API server reports, and remembers what it found.
package invariant
