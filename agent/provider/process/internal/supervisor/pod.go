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

// Pod is a pod that has, or had, a supervisor. Its methods may be called concurrently.
type Pod struct {
	folder string
	plan   *Plan
	pidfd  *os.File // nil if the supervisor had ended when the pod was opened
	done   chan struct{}
}

// Create makes a folder and starts a supervisor for a plan. The folder must not exist. After an
// error, it does not exist either.
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

// makeGroups makes the cgroups of a pod and its containers.
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

// Again starts a new supervisor for the same plan, after one that was killed. Containers that were
// running count as killed. The pod's restart policy decides which containers run again.
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
		_ = cmd.Wait() // the exit status is not needed, since state.json says how the pod ended
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

// NamespacesError says that a supervisor cannot have namespaces of its own on this machine.
type NamespacesError struct{ Err error }

func (err *NamespacesError) Error() string {
	return fmt.Sprintf("processes of pods need namespaces of their own, which this machine does not grant: %v", err.Err)
}

func (err *NamespacesError) Unwrap() error { return err.Err }

// attributes returns how a supervisor is started. It has its own session, so that it gets no
// signals of a terminal.
func attributes(plan *Plan) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC}
	if !plan.HostNetwork {
		attr.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWUTS
	}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		// Without root, only a new user namespace permits to make the others.
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_KILL}
	}
	return attr
}

// beginTimeout limits the time from the start of a supervisor to its first state.
const beginTimeout = 10 * time.Second

// Open returns the pod of a folder that Create made. If its supervisor has ended, Done is closed,
// and there is no error. If the creator was killed before it wrote supervisor.json, the supervisor
// ends without a state. Open waits until there is a state, or the supervisor has ended.
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
		close(p.done) // closed before Open returns, so that its caller sees it
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

// Plan returns the plan of the pod.
func (p *Pod) Plan() *Plan { return p.plan }

// Done returns a channel that is closed when all processes of the pod have ended.
func (p *Pod) Done() <-chan struct{} { return p.done }

// State returns the latest state that the supervisor wrote. It is zero before the first one.
func (p *Pod) State() (State, error) {
	return checkpoint.Read[State](p.StateFile())
}

// StateFile returns the path of the file with the state. It is replaced at each change.
func (p *Pod) StateFile() string { return filepath.Join(p.folder, stateFile) }

// Failure returns the error with which the supervisor failed, or an empty string.
func (p *Pod) Failure() string {
	text, err := os.ReadFile(filepath.Join(p.folder, errorFile))
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), 1000)])
}

// End makes the supervisor end the containers and then itself. At the deadline, it kills those that
// still run. A deadline later than that of an earlier call has no effect.
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

// Kill sends SIGKILL to all processes of the pod.
func (p *Pod) Kill() {
	p.signal(unix.SIGKILL)
	if p.plan.Group != "" {
		_ = cgroup.Kill(p.plan.Group) // also reached by the signal
	}
}

// signal sends a signal to the supervisor. It does nothing if the supervisor has ended.
func (p *Pod) signal(signal unix.Signal) {
	if p.pidfd == nil {
		return
	}
	if conn, err := p.pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), signal, nil, 0) })
	}
}

// Close closes the pidfd of the supervisor. It is not needed before Remove.
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

// Remove removes the folder, the control group, and the logs. Done must be closed.
func (p *Pod) Remove() error {
	p.Close()
	return errors.Join(p.removeGroup(), os.RemoveAll(p.plan.LogFolder), os.RemoveAll(p.folder))
}
