// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publicapi lists what the library exports: each name with what it is for, and who in
// this repository uses it. docs/api.md is that list. A test compares the two, so that no change
// of the API goes unseen, and fails if a name shows a type that importers cannot name.
package publicapi
