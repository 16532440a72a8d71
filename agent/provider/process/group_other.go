//go:build !linux

package process

import "syscall"

// newGroup gives a process a group of its own: signals reach its children, and those of the
// terminal do not reach it.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
