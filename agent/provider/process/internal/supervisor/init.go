// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// The files that an init gets.
const (
	planDescriptor   = 3
	reportDescriptor = 4
	groupDescriptor  = 5 // of the command, if it has one
	homeDescriptor   = 6 // the group of the init
)

// initialize runs the command of a container, with what it may have and no more. It ends the process with status 0 if it
// could tell how the command ended, and returns if it failed. As PID 1 of the container it waits for all its processes; when it
// ends, the kernel ends those that are left.
func initialize() {
	plan := os.NewFile(planDescriptor, "plan")
	in := &commandRunner{orders: json.NewDecoder(plan), reports: json.NewEncoder(os.NewFile(reportDescriptor, "report")), beside: make(map[int]*beside)}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	// What is taken from this thread is taken from what it starts. It starts everything.
	runtime.LockOSThread()
	pid, err := in.begin()
	if err != nil {
		_ = in.tell(report{Error: err.Error()})
		return
	}
	if in.tell(report{PID: pid}) != nil {
		return
	}
	go func() {
		for range signals {
			_ = unix.Kill(-in.command, unix.SIGTERM)
		}
	}()
	go func() {
		if in.tell(report{Exited: in.reap()}) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}()
	in.obey()
	select {} // the supervisor says no more
}

// commandRunner is the init of a container.
type commandRunner struct {
	container Container
	orders    *json.Decoder
	told      sync.Mutex
	reports   *json.Encoder

	// mu is held while a process is started, so that its end is not seen before.
	mu      sync.Mutex
	command int             // process
	beside  map[int]*beside // by process
}

// keepFiles has no process that this one starts get its files, but for those that it is given. Whoever started
// the agent may have left some open.
func keepFiles() error {
	if err := unix.CloseRange(planDescriptor, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("files of the init: %w", err)
	}
	return nil
}

func (in *commandRunner) tell(what report) error {
	in.told.Lock()
	defer in.told.Unlock()
	return in.reports.Encode(what)
}

// begin starts the command. It returns the number of this process for the machine.
func (in *commandRunner) begin() (pid int, err error) {
	if err := errors.Join(keepFiles(), in.orders.Decode(&in.container)); err != nil {
		return 0, err
	}
	text, err := os.Readlink("/proc/self") // still the machine's
	if err != nil {
		return 0, err
	}
	if pid, err = strconv.Atoi(text); err != nil {
		return 0, err
	}
	if err := mounts(&in.container); err != nil {
		return 0, err
	}
	for _, variable := range in.container.Env {
		if name, value, _ := strings.Cut(variable, "="); name == "PATH" {
			if err := os.Setenv(name, value); err != nil { // where the command is looked for
				return 0, err
			}
		}
	}
	if err := restrict(); err != nil {
		return 0, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.command, err = in.start(in.container.Args, os.Stdout, os.Stderr)
	return pid, err
}

// start starts a process as the container's user, in its group.
func (in *commandRunner) start(args []string, stdout, stderr *os.File) (pid int, err error) {
	command := exec.Command(args[0], args[1:]...)
	command.Env, command.Dir = in.container.Env, in.container.Dir
	if command.Dir == "" {
		command.Dir = "/"
	}
	command.Stdout, command.Stderr = stdout, stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: in.container.Identity.credential()}
	if in.container.Grouped {
		// Whatever a process starts is in its group, so this one is there meanwhile. Its own
		// memory stays where it was.
		if err := join(groupDescriptor); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, join(homeDescriptor)) }()
	}
	if err := command.Start(); err != nil {
		return 0, err
	}
	pid = command.Process.Pid
	return pid, command.Process.Release() // reap waits for it
}

// join puts this process into the group whose file of processes is open.
func join(fd int) error {
	if _, err := unix.Write(fd, []byte{'0'}); err != nil {
		return fmt.Errorf("enter a control group: %w", err)
	}
	return nil
}

// credential is the identity for the kernel. In a user namespace, which has one user, there are
// no groups to set.
func (i Identity) credential() *syscall.Credential {
	return &syscall.Credential{Uid: i.User, Gid: i.Group, Groups: i.Groups, NoSetGroups: os.Geteuid() != 0}
}

// mounts gives the container its own /proc, and takes the right to write from all else if it
// is to have none.
func mounts(container *Container) error {
	// Rights that the files of groups give to root are not for root's processes.
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, cgroup.Top, unix.AT_RECURSIVE, readOnly); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("make %s read-only: %w", cgroup.Top, err)
	}
	if container.ReadOnly {
		if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly); err != nil {
			return fmt.Errorf("make files read-only: %w", err)
		}
		writable := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, "/dev/shm", 0, writable); err != nil {
			return fmt.Errorf("make /dev/shm writable: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return bind(container.Mounts)
}

// restrict takes from this thread what no process of a pod has: new privileges, all
// capabilities, and system calls. The capabilities that are left are those with which
// it becomes the container's user; they end there, or when the command is executed.
func restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && capability > unix.CAP_CHOWN {
			break // that was the last one
		}
		if err != nil {
			return fmt.Errorf("bounding set: capability %d: %w", capability, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("inheritable capabilities: %w", err)
	}
	return filterCalls()
}

// reap waits for the children of this process, and returns how the command ended.
func (in *commandRunner) reap() *exited {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return &exited{Code: exitNotStarted}
		}
		how := exited{Code: int32(status.ExitStatus())}
		if status.Signaled() {
			how = exited{Code: exitSignal + int32(status.Signal()), Signal: int32(status.Signal())}
		}
		in.mu.Lock()
		other := in.beside[ended]
		delete(in.beside, ended)
		is := ended == in.command
		in.mu.Unlock()
		switch {
		case is:
			return &how
		case other != nil:
			go func() { _ = in.tell(report{Done: other.end(how)}) }()
		}
	}
}
