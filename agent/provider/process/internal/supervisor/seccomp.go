// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"maps"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// deniedCalls are the system calls that no process of a pod may make. They change the machine, read
// other processes, or use parts of the kernel that containers do not need. The default seccomp
// profiles of container runtimes deny them, too.
var deniedCalls = []string{
	// the machine and its clock
	"acct", "adjtimex", "clock_adjtime", "clock_settime", "iopl", "ioperm", "kexec_file_load", "kexec_load", "nfsservctl",
	"quotactl", "quotactl_fd", "reboot", "settimeofday", "stime", "swapoff", "swapon", "syslog", "vhangup",
	// modules, programs and keys of the kernel
	"add_key", "bpf", "create_module", "delete_module", "finit_module", "get_kernel_syms", "init_module", "keyctl", "query_module", "request_key",
	// mounts and namespaces
	"chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "name_to_handle_at", "open_by_handle_at",
	"open_tree", "pivot_root", "setns", "umount", "umount2", "unshare",
	// other processes and their memory
	"kcmp", "lookup_dcookie", "move_pages", "migrate_pages", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace",
	// large and rarely used parts of the kernel
	"io_uring_enter", "io_uring_register", "io_uring_setup", "perf_event_open", "userfaultfd", "fanotify_init",
	// obsolete ones
	"_sysctl", "personality", "sysfs", "uselib", "ustat", "vm86", "vm86old",
}

// namespaceFlags are the flags of clone that create namespaces.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// filterCalls installs a seccomp filter for this thread and processes that it starts. Unknown
// system calls are denied, too, as are those of other architectures, which a list of denied calls
// would not catch. clone3 fails with ENOSYS, because a filter cannot read its flags. C libraries
// then use clone.
func filterCalls() error {
	machine, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	allowed := slices.DeleteFunc(slices.Sorted(maps.Keys(machine.SyscallNames)), func(name string) bool {
		return name == "clone" || name == "clone3" || slices.Contains(deniedCalls, name)
	})
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		{Action: seccomp.ActionAllow, Names: allowed, NamesWithCondtions: []seccomp.NameWithConditions{{
			Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsNotSet, Value: namespaceFlags}},
		}}},
	}}
	if err := seccomp.LoadFilter(seccomp.Filter{Policy: policy}); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
