// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sockets has what unix sockets are limited by.
package sockets

import "fmt"

// maxPath is how many bytes the path of a unix socket may have on Linux. The kernel says
// no more than "invalid argument" of longer ones.
const maxPath = 107

// CheckPath returns an error if no socket can be at a path, because it is too long.
func CheckPath(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("socket %s: the path has %d bytes, and that of a socket must not have more than %d", path, len(path), maxPath)
	}
	return nil
}
