// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "syscall"

// detached keeps signals of the caller's terminal away from a process, and ends it should
// the caller die without ending it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
