// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

// NamedError is about a ResourceSlice, pool or device. Errors of equal nodes differ in such names.
type NamedError struct {
	// Text is the error in full, General the same without the name.
	Text, General string
	// Err is the cause, nil if the text says it.
	Err error
}

// Error implements error.
func (e *NamedError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *NamedError) Unwrap() error { return e.Err }
