// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

// NamedError names a ResourceSlice, pool or device. The errors of equivalent nodes differ in such names only.
type NamedError struct {
	// Text is the full error. General is the text without the name.
	Text, General string
	// Err is the cause, nil if there is none besides the text.
	Err error
}

// Error implements error.
func (e *NamedError) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *NamedError) Unwrap() error { return e.Err }
