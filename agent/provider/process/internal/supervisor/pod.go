// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// Pod is a pod that has a supervisor, or had one. Methods may be called concurrently.
type Pod struct {
	folder string
	plan   *Plan
	pidfd  *os.File // nil if the supervisor had ended when the pod was opened
	done   chan struct{}
}

// Create starts a supervisor for a plan. The folder must not exist, and is made. After an
// error, there is no folder.
func Create(folder string, plan *Plan) (*Pod, error) {
	p := &Pod{folder: folder, plan: plan, done: make(chan struct{})}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	if err := p.create(); err != nil {
		return nil, errors.Join(err, p.removeGroup(), os.RemoveAll(folder))
	}
	return p, nil
}

func (p *Pod) create() error {
	if err := checkpoint.Write(filepath.Join(p.folder, planFile), p.plan); err != nil {
		return err
	}
	if err := makeVolumes(p.folder, p.plan); err != nil {
		return err
	}
	if err := makeGroups(p.plan); err != nil {
		return err
	}
	return p.start()
}

// makeGroups makes the control groups of a pod and its containers.
func makeGroups(plan *Plan) error {
	if plan.Group == "" {
		return nil
	}
	share := cgroup.Limits{CPURequest: plan.Limits.CPURequest}
	limits := cgroup.Limits{CPU: plan.Limits.CPU, Memory: plan.Limits.Memory}
	if err := errors.Join(cgroup.Make(plan.Group, share), cgroup.Make(cgroup.Supervisor(plan.Group), cgroup.Limits{}), cgroup.Make(cgroup.Containers(plan.Group), limits)); err != nil {
		return err
	}
	for _, container := range slices.Concat(plan.Inits, plan.Containers) {
		if err := cgroup.Make(cgroup.Container(plan.Group, container.Name), container.Limits); err != nil {
			return fmt.Errorf("container %s: %w", container.Name, err)
		}
	}
	return nil
}

// Again starts a supervisor after one that was killed, for the same plan. Its containers run
// again as far as the pod's restart policy says so; those in State that ran are taken for killed.
func (p *Pod) Again() (*Pod, error) {
	again := &Pod{folder: p.folder, plan: p.plan, done: make(chan struct{})}
	return again, again.start()
}

func (p *Pod) start() error {
	failures, err := os.OpenFile(filepath.Join(p.folder, errorFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = failures.Close() }()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{supervisorName, p.folder}
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdout, cmd.Stderr = failures, failures
	pidfd := -1
	cmd.SysProcAttr = attributes(p.plan)
	cmd.SysProcAttr.PidFD = &pidfd
	if p.plan.Group != "" {
		group, err := os.Open(cgroup.Supervisor(p.plan.Group))
		if err != nil {
			return err
		}
		defer func() { _ = group.Close() }()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	begin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return &NamespacesError{err}
	} else if err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	if pidfd >= 0 {
		p.pidfd = os.NewFile(uintptr(pidfd), "supervisor")
	}
	record, err := recordOf(cmd.Process.Pid)
	if err == nil {
		err = checkpoint.Write(filepath.Join(p.folder, recordFile), record)
	}
	if err == nil {
		_, err = begin.Write([]byte{0})
	}
	if err = errors.Join(err, begin.Close()); err != nil {
		p.Kill()
		<-p.done
	}
	return err
}

// NamespacesError says that this machine does not let a supervisor have its own namespaces.
type NamespacesError struct{ Err error }

func (err *NamespacesError) Error() string {
	return fmt.Sprintf("processes of pods need namespaces of their own, which this machine does not grant: %v", err.Err)
}

func (err *NamespacesError) Unwrap() error { return err.Err }

// attributes of a supervisor. It has a session of its own, so that no terminal ends it.
func attributes(plan *Plan) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC}
	if !plan.HostNetwork {
		attr.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWUTS
	}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		// In a user namespace of its own, the supervisor may make the others.
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_KILL}
	}
	return attr
}

// beginTimeout is how long a supervisor may take from its start to its first state.
const beginTimeout = 10 * time.Second

// Open finds the pod of a folder that Create made. It is not an error if its supervisor has
// ended; Done is closed then. A supervisor whose creator was killed before it said that it is
// recorded ends without a state: Open waits until one or the other is so.
func Open(folder string) (*Pod, error) {
	plan, err := checkpoint.Read[*Plan](filepath.Join(folder, planFile))
	if err != nil {
		return nil, err
	}
	if plan == nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(folder, planFile), Err: fs.ErrNotExist}
	}
	process, err := checkpoint.Read[record](filepath.Join(folder, recordFile))
	if err != nil {
		return nil, err
	}
	p := &Pod{folder: folder, plan: plan, done: make(chan struct{})}
	if p.pidfd, err = process.open(); err != nil {
		return nil, err
	}
	if p.pidfd == nil || isOver(p.pidfd) {
		close(p.done) // here, so that whoever opens it knows
		return p, nil
	}
	go func() {
		defer close(p.done)
		awaitEnd(p.pidfd)
	}()
	return p, p.awaitBegin()
}

func (p *Pod) awaitBegin() error {
	for deadline := time.Now().Add(beginTimeout); ; {
		state, err := p.State()
		if err != nil || len(state.Containers) > 0 || time.Now().After(deadline) {
			return err
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Plan is what the pod was created with.
func (p *Pod) Plan() *Plan { return p.plan }

// Done is closed when no process of the pod runs any more.
func (p *Pod) Done() <-chan struct{} { return p.done }

// State is what the supervisor wrote last. The zero State stands for nothing.
func (p *Pod) State() (State, error) {
	return checkpoint.Read[State](p.StateFile())
}

// StateFile is the path of the file that changes with the state.
func (p *Pod) StateFile() string { return filepath.Join(p.folder, stateFile) }

// Failure is what the supervisor said before it failed, if anything.
func (p *Pod) Failure() string {
	text, err := os.ReadFile(filepath.Join(p.folder, errorFile))
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), 1000)])
}

// End has the pod's processes end by a deadline, and the supervisor with them. A later deadline
// than one before changes nothing.
func (p *Pod) End(deadline time.Time) error {
	path := filepath.Join(p.folder, endingFile)
	before, err := checkpoint.Read[ending](path)
	if err != nil {
		return err
	}
	if before.Deadline.IsZero() || deadline.Before(before.Deadline) {
		if err := checkpoint.Write(path, ending{deadline}); err != nil {
			return err
		}
	}
	p.signal(unix.SIGTERM)
	return nil
}

// Kill ends all processes of the pod at once.
func (p *Pod) Kill() {
	p.signal(unix.SIGKILL)
	if p.plan.Group != "" {
		_ = cgroup.Kill(p.plan.Group) // what the signal reaches anyhow
	}
}

// signal reaches the supervisor or, if it has ended, nobody.
func (p *Pod) signal(signal unix.Signal) {
	if p.pidfd == nil {
		return
	}
	if conn, err := p.pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), signal, nil, 0) })
	}
}

// Close lets go of a supervisor that has ended. It is not needed before Remove.
func (p *Pod) Close() {
	if p.pidfd != nil {
		_ = p.pidfd.Close()
	}
}

func (p *Pod) removeGroup() error {
	if p.plan.Group == "" {
		return nil
	}
	return cgroup.Remove(p.plan.Group)
}

// Remove removes the folder, the control group, and the logs. The pod must be done.
func (p *Pod) Remove() error {
	p.Close()
	return errors.Join(p.removeGroup(), os.RemoveAll(p.plan.LogFolder), os.RemoveAll(p.folder))
}
