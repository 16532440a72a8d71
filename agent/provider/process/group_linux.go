package process

import "syscall"

// newGroup gives a process a group of its own: signals reach its children, and those of the
// terminal do not reach it. It does not outlive the provider's process.
func newGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
