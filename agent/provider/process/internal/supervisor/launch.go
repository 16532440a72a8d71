package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// started is what an init says when its command runs, or does not.
type started struct {
	// PID is the init's, as the machine sees it.
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
}

// exited is what an init says when its command has ended.
type exited struct {
	Code   int32 `json:"code"`
	Signal int32 `json:"signal,omitempty"`
}

// launched is a container that runs.
type launched struct {
	init    *exec.Cmd
	pid     int
	streams [2]*stream    // standard output and error
	done    chan struct{} // closed when no process of it runs any more
	// How the command ended. To be read after done.
	code, signal int32
}

// launch starts a container, and returns when its command runs.
func launch(container *Container, log *log) (*launched, error) {
	plan, theirPlan, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirReport, report, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, plan.Close(), theirPlan.Close())
	}
	l := &launched{streams: [2]*stream{log.stream("stdout"), log.stream("stderr")}, done: make(chan struct{})}
	l.init = exec.Command("/proc/self/exe")
	l.init.Args, l.init.Env, l.init.Dir = []string{initName}, []string{}, "/"
	l.init.Stdout, l.init.Stderr = l.streams[0], l.streams[1]
	l.init.ExtraFiles = []*os.File{plan, report}
	l.init.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	err = l.init.Start()
	_, _ = plan.Close(), report.Close()
	if err != nil {
		return nil, errors.Join(err, theirPlan.Close(), theirReport.Close())
	}
	// An init that fails says so, or ends.
	_ = json.NewEncoder(theirPlan).Encode(container)
	_ = theirPlan.Close()
	reports := json.NewDecoder(theirReport)
	var first started
	if err := reports.Decode(&first); err != nil || first.Error != "" {
		_ = l.init.Process.Kill()
		return nil, errors.Join(orEnded(first.Error, err), ignoreExit(l.init.Wait()), theirReport.Close())
	}
	l.pid = first.PID
	go func() {
		defer close(l.done)
		l.await(reports)
		_ = theirReport.Close()
	}()
	return l, nil
}

func orEnded(text string, err error) error {
	if text != "" {
		return errors.New(text)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the init of the container ended before its command ran")
	}
	return fmt.Errorf("the init of the container: %w", err)
}

// ignoreExit leaves errors that are not about how a process ended.
func ignoreExit(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// await finds out how the command ended. An init that is killed does not say it.
func (l *launched) await(reports *json.Decoder) {
	var last exited
	if err := reports.Decode(&last); err != nil {
		last = exited{Code: exitSignal + int32(unix.SIGKILL), Signal: int32(unix.SIGKILL)}
	}
	_ = l.init.Wait()
	for _, stream := range l.streams {
		stream.flush()
	}
	l.code, l.signal = last.Code, last.Signal
}
