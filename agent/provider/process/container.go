package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/provider/internal/podstatus"
)

// The pauses before a container that ended runs again, as kubelet makes them.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
)

// Exit codes of what did not run, as shells and container runtimes give them.
const (
	exitNotStarted = 128
	exitSignal     = 128 // plus the signal's number
)

// runContainer runs a container until it is not to run again. It tells each state.
func (r *runningPod) runContainer(ctx context.Context, container *corev1.Container, command *command, tell func(corev1.ContainerStatus)) {
	pause := firstPause
	for restarts := int32(0); ; restarts++ {
		ended := r.runOnce(ctx, container, command, restarts, tell)
		again := ctx.Err() == nil && podstatus.Restarts(r.pod, ended.State.Terminated.ExitCode)
		if !again {
			tell(ended)
			return
		}
		waiting := podstatus.Waiting(container, restarts+1, "CrashLoopBackOff")
		waiting.LastTerminationState = ended.State
		tell(waiting)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			tell(ended)
			return
		case <-timer.C:
		}
		pause = min(2*pause, lastPause)
	}
}

// runOnce starts a process, waits for it, and returns how it ended. When ctx ends, its group is
// told to end, and killed when its grace is over.
func (r *runningPod) runOnce(ctx context.Context, container *corev1.Container, command *command, restarts int32, tell func(corev1.ContainerStatus)) corev1.ContainerStatus {
	began := metav1.Now()
	failed := func(err error) corev1.ContainerStatus {
		status := podstatus.Ended(container, restarts, exitNotStarted, 0, began, metav1.Now())
		status.State.Terminated.Reason, status.State.Terminated.Message = "StartError", err.Error()
		return status
	}
	log, err := r.openLog(container.Name, restarts)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = log.Close() }() // what the process wrote is in the file already
	cmd := exec.Command(command.args[0], command.args[1:]...)
	cmd.Env, cmd.Dir = append(os.Environ(), command.env...), command.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = newGroup()
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	tell(podstatus.Running(container, restarts, began))
	exit := r.wait(ctx, cmd)
	code, signal := exitOf(exit)
	return podstatus.Ended(container, restarts, code, signal, began, metav1.Now())
}

// wait returns what the process ended with. Its children do not outlive it.
func (r *runningPod) wait(ctx context.Context, cmd *exec.Cmd) error {
	group := -cmd.Process.Pid
	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait() }()
	defer func() { _ = syscall.Kill(group, syscall.SIGKILL) }()
	select {
	case err := <-exit:
		return err
	case <-ctx.Done():
	}
	_ = syscall.Kill(group, syscall.SIGTERM)
	timer := time.NewTimer(r.graceLeft())
	defer timer.Stop()
	select {
	case err := <-exit:
		return err
	case <-timer.C:
		_ = syscall.Kill(group, syscall.SIGKILL)
		return <-exit
	}
}

// exitOf is the exit code of a process, and the signal that ended it, if one did.
func exitOf(err error) (code, signal int32) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, 0
	case !errors.As(err, &exit):
		return exitNotStarted, 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int32(status.Signal()), int32(status.Signal())
	}
	return int32(exit.ExitCode()), 0
}

// openLog makes the file that the output of a container goes to.
func (r *runningPod) openLog(container string, restarts int32) (*os.File, error) {
	folder := filepath.Join(r.folder, fmt.Sprintf("%s_%s_%s", r.pod.Namespace, r.pod.Name, r.pod.UID), container)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(folder, strconv.Itoa(int(restarts))+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}
