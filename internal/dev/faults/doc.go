// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults stands between a client and an API server, and spoils chosen requests:
// it answers them with an error, lets them through and loses the answer, or holds them back
// for as long as somebody wants to do something meanwhile. The rest, watches included, passes
// unchanged.
package faults
