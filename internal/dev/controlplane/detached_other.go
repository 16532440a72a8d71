// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package controlplane

import "syscall"

// detached keeps signals of the caller's terminal away from a process.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
