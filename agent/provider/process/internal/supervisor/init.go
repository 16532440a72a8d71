package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The files that an init gets.
const (
	planDescriptor   = 3
	reportDescriptor = 4
)

// initialize runs the command of a container, with what it may have and no more, and returns
// the exit code of the init. As PID 1 of the container it waits for all its processes; when it
// ends, the kernel ends those that are left.
func initialize() int {
	plan, report := os.NewFile(planDescriptor, "plan"), os.NewFile(reportDescriptor, "report")
	unix.CloseOnExec(planDescriptor)
	unix.CloseOnExec(reportDescriptor)
	reports := json.NewEncoder(report)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	var container Container
	err := json.NewDecoder(plan).Decode(&container)
	_ = plan.Close()
	var first started
	var command *exec.Cmd
	if err == nil {
		first.PID, command, err = start(&container)
	}
	if err != nil {
		first.Error = err.Error()
	}
	if reports.Encode(first) != nil || err != nil {
		return 1
	}
	go func() {
		for range signals {
			_ = unix.Kill(-command.Process.Pid, unix.SIGTERM)
		}
	}()
	if err := reports.Encode(reap(command.Process.Pid)); err != nil {
		return 1
	}
	return 0
}

// start starts the command of a container. It also returns the number of this process for
// the machine.
func start(container *Container) (pid int, command *exec.Cmd, err error) {
	text, err := os.Readlink("/proc/self") // still the machine's
	if err != nil {
		return 0, nil, err
	}
	if pid, err = strconv.Atoi(text); err != nil {
		return 0, nil, err
	}
	if err := mounts(container); err != nil {
		return 0, nil, err
	}
	for _, variable := range container.Env {
		if name, value, _ := strings.Cut(variable, "="); name == "PATH" {
			if err := os.Setenv(name, value); err != nil { // where the command is looked for
				return 0, nil, err
			}
		}
	}
	command = exec.Command(container.Args[0], container.Args[1:]...)
	command.Env, command.Dir = container.Env, container.Dir
	if command.Dir == "" {
		command.Dir = "/"
	}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: container.Identity.credential()}
	// What is taken from this thread is taken from what it starts. It is never used for
	// anything else.
	runtime.LockOSThread()
	if err := restrict(); err != nil {
		return 0, nil, err
	}
	return pid, command, command.Start()
}

// credential is the identity for the kernel. In a user namespace, which has one user, there are
// no groups to set.
func (i Identity) credential() *syscall.Credential {
	return &syscall.Credential{Uid: i.User, Gid: i.Group, Groups: i.Groups, NoSetGroups: os.Geteuid() != 0}
}

// mounts gives the container its own /proc, and takes the right to write from all else if it
// is to have none.
func mounts(container *Container) error {
	if container.ReadOnly {
		readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
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
	return nil
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

// reap waits for the children of this process, and returns how one of them ended.
func reap(pid int) exited {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exited{Code: exitNotStarted}
		case ended != pid:
		case status.Signaled():
			return exited{Code: exitSignal + int32(status.Signal()), Signal: int32(status.Signal())}
		default:
			return exited{Code: int32(status.ExitStatus())}
		}
	}
}
