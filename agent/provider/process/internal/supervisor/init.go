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

// The file descriptors of an init.
const (
	planDescriptor   = 3
	reportDescriptor = 4
	groupDescriptor  = 5 // cgroup of the command, if it has one
	homeDescriptor   = 6 // cgroup of the init
)

// initialize runs the command of a container with restricted privileges. It exits with status 0 if
// it could report how the command ended. It returns if the command could not be started. As PID 1
// of the container, it reaps all processes. When it ends, the kernel kills those that remain.
func initialize() {
	plan := os.NewFile(planDescriptor, "plan")
	in := &commandRunner{orders: json.NewDecoder(plan), reports: json.NewEncoder(os.NewFile(reportDescriptor, "report")), beside: make(map[int]*execRun)}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	// Restrictions apply to this thread and to the processes that it starts. It must start all of
	// them.
	runtime.LockOSThread()
	pid, err := in.begin()
	if err != nil {
		_ = in.send(report{Error: err.Error()})
		return
	}
	if in.send(report{PID: pid}) != nil {
		return
	}
	go func() {
		for range signals {
			_ = unix.Kill(in.command, unix.SIGTERM) // not to its children, as container runtimes do
		}
	}()
	go func() {
		if in.send(report{Exited: in.reap()}) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}()
	in.execOrders()
	select {} // the pipe was closed, but the command still runs
}

// commandRunner is the init of a container.
type commandRunner struct {
	container Container
	orders    *json.Decoder
	sendMu    sync.Mutex
	reports   *json.Encoder

	// mu is held while a process is started, so that reap does not miss its end.
	mu      sync.Mutex
	command int              // PID
	beside  map[int]*execRun // by PID
}

// keepFiles sets close-on-exec on the init's own files and on all others that it inherited, so that
// no command gets them.
func keepFiles() error {
	if err := unix.CloseRange(planDescriptor, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("files of the init: %w", err)
	}
	return nil
}

func (in *commandRunner) send(what report) error {
	in.sendMu.Lock()
	defer in.sendMu.Unlock()
	return in.reports.Encode(what)
}

// begin starts the command. It returns the init's PID in the PID namespace of the machine.
func (in *commandRunner) begin() (pid int, err error) {
	if err := errors.Join(keepFiles(), in.orders.Decode(&in.container)); err != nil {
		return 0, err
	}
	text, err := os.Readlink("/proc/self") // /proc is still the machine's
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
			if err := os.Setenv(name, value); err != nil { // PATH is used to find the command
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

// start starts a process as the container's user, in its cgroup.
func (in *commandRunner) start(args []string, stdout, stderr *os.File) (pid int, err error) {
	command := exec.Command(args[0], args[1:]...)
	command.Env, command.Dir = in.container.Env, in.container.Dir
	if command.Dir == "" {
		command.Dir = "/"
	}
	// Start would give the same error as for a command that does not exist.
	if found, err := os.Stat(command.Dir); err != nil || !found.IsDir() {
		return 0, fmt.Errorf("workingDir: %s: is not a folder of this machine, and none is made", command.Dir)
	}
	command.Stdout, command.Stderr = stdout, stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: in.container.Identity.credential()}
	if in.container.Grouped {
		// A new process is in the cgroup of its parent. So the init joins the container's cgroup
		// for a moment. Memory that it has already allocated stays accounted where it was.
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

// join moves this process to a cgroup, given an open file cgroup.procs.
func join(fd int) error {
	if _, err := unix.Write(fd, []byte{'0'}); err != nil {
		return fmt.Errorf("enter a control group: %w", err)
	}
	return nil
}

// credential returns the identity for the kernel. A user namespace without root maps a single user,
// and groups cannot be set there.
func (i Identity) credential() *syscall.Credential {
	return &syscall.Credential{Uid: i.User, Gid: i.Group, Groups: i.Groups, NoSetGroups: os.Geteuid() != 0}
}

// mounts mounts the container's /proc and volumes. If the container's root file system is to be
// read-only, it makes all mounts read-only.
func mounts(container *Container) error {
	// Root may write to files of cgroups by their permissions. A container's processes must not,
	// even as root.
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

// restrict removes privileges from this thread: gaining new privileges, all capabilities, and
// denied system calls. The init keeps the capabilities to switch to the container's user. They are
// lost with that switch, or when the command is executed.
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
			break // past the last capability of this kernel
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

// reap waits for all children of this process, and returns how the command ended.
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
			go func() { _ = in.send(report{Done: other.result(how)}) }()
		}
	}
}
