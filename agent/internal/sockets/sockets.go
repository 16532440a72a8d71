// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sockets makes unix sockets, and checks their limits.
package sockets

import "fmt"

// maxPath is the maximum length of a unix socket's path on Linux, in bytes. For longer ones, the
// kernel only returns "invalid argument".
const maxPath = 107

// CheckPath returns an error if a path is too long for a socket.
func CheckPath(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("socket %s: the path has %d bytes, and that of a socket must not have more than %d", path, len(path), maxPath)
	}
	return nil
}
