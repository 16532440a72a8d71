package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/provider/internal/podstatus"
)

// What this program is called when it is a supervisor or an init.
const (
	supervisorName = "dray-pod"
	initName       = "dray-container"
)

// Main does not return if this process is a supervisor or an init. It is to be called first
// thing in the main function of programs that call Create.
func Main() {
	switch {
	case len(os.Args) == 2 && os.Args[0] == supervisorName:
		if err := supervise(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 1 && os.Args[0] == initName:
		os.Exit(initialize())
	}
}

// running is a pod in its supervisor.
type running struct {
	folder string
	plan   *Plan

	mu       sync.Mutex
	state    State
	deadline time.Time     // when what still runs is killed, once it is to end
	ending   chan struct{} // closed when it is to end
	sooner   chan struct{} // closed when the deadline changes
}

func supervise(folder string) error {
	if n, err := os.Stdin.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("whoever started the supervisor did not record it: %w", err)
	}
	plan, err := checkpoint.Read[*Plan](filepath.Join(folder, planFile))
	if err != nil || plan == nil {
		return errors.Join(err, errors.New("there is no plan"))
	}
	r := &running{folder: folder, plan: plan, ending: make(chan struct{}), sooner: make(chan struct{})}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.end(); err != nil { // it may have been told before it heard
		return err
	}
	go func() {
		for range signals {
			if err := r.end(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	if err := enclose(r.plan); err != nil {
		return err
	}
	return r.run()
}

// enclose gives the pod what its containers share.
func enclose(plan *Plan) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if plan.HostNetwork {
		return nil
	}
	if err := unix.Sethostname([]byte(plan.Hostname)); err != nil {
		return fmt.Errorf("host name %q: %w", plan.Hostname, err)
	}
	return loopbackUp()
}

func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	return nil
}

// end reads by when the pod is to end, if it is.
func (r *running) end() error {
	told, err := checkpoint.Read[ending](filepath.Join(r.folder, endingFile))
	if err != nil || told.Deadline.IsZero() {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deadline.IsZero() {
		close(r.ending)
	}
	if !told.Deadline.Equal(r.deadline) {
		r.deadline = told.Deadline
		close(r.sooner)
		r.sooner = make(chan struct{})
	}
	return nil
}

func (r *running) isEnding() bool {
	select {
	case <-r.ending:
		return true
	default:
		return false
	}
}

// awaitDeadline returns when the pod's time to end is over, or when done is closed.
func (r *running) awaitDeadline(done <-chan struct{}) {
	for {
		r.mu.Lock()
		left, sooner := time.Until(r.deadline), r.sooner
		r.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			return
		case <-done:
			timer.Stop()
			return
		case <-sooner:
			timer.Stop()
		}
	}
}

// begin writes the first state: from now on, the supervisor runs the pod.
func (r *running) begin() error {
	r.state.Began = metav1.Now()
	for i := range r.plan.Containers {
		r.state.Containers = append(r.state.Containers, podstatus.Waiting(r.spec(i), 0, "ContainerCreating"))
	}
	return r.tell(func() {})
}

// run runs all containers until none is to run again.
func (r *running) run() error {
	var containers sync.WaitGroup
	failed := make([]error, len(r.plan.Containers))
	for i := range r.plan.Containers {
		containers.Go(func() {
			failed[i] = r.runContainer(i, func(status corev1.ContainerStatus) error {
				return r.tell(func() { r.state.Containers[i] = status })
			})
		})
	}
	containers.Wait()
	return errors.Join(append(failed, r.tell(func() { r.state.Over = true }))...)
}

func (r *running) tell(change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	return checkpoint.Write(filepath.Join(r.folder, stateFile), r.state)
}

// spec is a container as the pod has it.
func (r *running) spec(i int) *corev1.Container {
	at := slices.IndexFunc(r.plan.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == r.plan.Containers[i].Name })
	return &r.plan.Pod.Spec.Containers[at]
}

// The pauses before a container that ended runs again, as kubelet makes them.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
)

// runContainer runs a container until it is not to run again. It tells each state.
func (r *running) runContainer(i int, tell func(corev1.ContainerStatus) error) error {
	pause := firstPause
	for restarts := int32(0); ; restarts++ {
		ended, err := r.runOnce(i, restarts, tell)
		if err != nil {
			return err
		}
		if r.isEnding() || !podstatus.Restarts(r.plan.Pod, ended.State.Terminated.ExitCode) {
			return tell(ended)
		}
		waiting := podstatus.Waiting(r.spec(i), restarts+1, "CrashLoopBackOff")
		waiting.LastTerminationState = ended.State
		if err := tell(waiting); err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-r.ending:
			timer.Stop()
			return tell(ended)
		case <-timer.C:
		}
		pause = min(2*pause, lastPause)
	}
}

// Exit codes of what did not run, as shells and container runtimes give them.
const (
	exitNotStarted = 128
	exitSignal     = 128 // plus the signal's number
)

// runOnce starts a container, waits for it, and returns how it ended. The error says that its
// state cannot be told.
func (r *running) runOnce(i int, restarts int32, tell func(corev1.ContainerStatus) error) (corev1.ContainerStatus, error) {
	began := metav1.Now()
	notStarted := func(err error) (corev1.ContainerStatus, error) {
		status := podstatus.Ended(r.spec(i), restarts, exitNotStarted, 0, began, metav1.Now())
		status.State.Terminated.Reason, status.State.Terminated.Message = "StartError", err.Error()
		return status, nil
	}
	log, err := openLog(filepath.Join(r.plan.LogFolder, r.plan.Containers[i].Name), restarts)
	if err != nil {
		return notStarted(err)
	}
	defer log.close()
	container, err := launch(&r.plan.Containers[i], log)
	if err != nil {
		return notStarted(err)
	}
	status := podstatus.Running(r.spec(i), restarts, began)
	status.ContainerID = fmt.Sprintf("process://%d", container.pid)
	if err := tell(status); err != nil {
		_ = container.init.Process.Kill() // nobody would know of it
		<-container.done
		return status, err
	}
	r.waitFor(container)
	ended := podstatus.Ended(r.spec(i), restarts, container.code, container.signal, began, metav1.Now())
	ended.ContainerID = status.ContainerID
	return ended, nil
}

// waitFor returns when a container has ended, which it does at the pod's deadline.
func (r *running) waitFor(container *launched) {
	select {
	case <-container.done:
		return
	case <-r.ending:
	}
	_ = container.init.Process.Signal(syscall.SIGTERM)
	r.awaitDeadline(container.done)
	_ = container.init.Process.Kill()
	<-container.done
}
