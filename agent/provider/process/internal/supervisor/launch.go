// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// order tells an init to run a process beside the command, or to kill such a process.
type order struct {
	Number int      `json:"number"`
	Args   []string `json:"args,omitempty"` // empty: kill the process of this number
}

// report is a message from an init. Only one field is set.
type report struct {
	// PID says that the command runs. It is the init's PID in the PID namespace of the machine.
	PID int `json:"pid,omitempty"`
	// Error says why the command could not be started.
	Error string `json:"error,omitempty"`
	// Exited says how the command ended.
	Exited *exited `json:"exited,omitempty"`
	// Done is the result of an order.
	Done *done `json:"done,omitempty"`
}

// exited says how a process ended.
type exited struct {
	Code   int32 `json:"code"`
	Signal int32 `json:"signal,omitempty"`
}

// done is the result of an order.
type done struct {
	Number int `json:"number"`
	exited
	// Output is the beginning of the process's output.
	Output []byte `json:"output,omitempty"`
	// Error says why the process could not be started.
	Error string `json:"error,omitempty"`
}

// launched is a started container.
type launched struct {
	init    *exec.Cmd
	pid     int
	streams [2]*stream    // standard output and error
	done    chan struct{} // closed when all processes of the container have ended
	// How the command ended. Valid after done is closed.
	exited

	mu     sync.Mutex
	orders *json.Encoder
	latest int // number of the latest order
	wanted map[int]chan done
}

// launch starts a container, and returns when its command runs. group is the path of the pod's
// cgroup, or empty.
func launch(container *Container, group string, log *log) (*launched, error) {
	files, ours, err := filesOf(container, group)
	if err != nil {
		return nil, err
	}
	l := &launched{
		streams: [2]*stream{log.stream("stdout"), log.stream("stderr")}, done: make(chan struct{}),
		orders: json.NewEncoder(ours[0]), wanted: make(map[int]chan done),
	}
	l.init = exec.Command("/proc/self/exe")
	l.init.Args, l.init.Env, l.init.Dir = []string{initName}, []string{}, "/"
	l.init.Stdout, l.init.Stderr = l.streams[0], l.streams[1]
	l.init.ExtraFiles = files
	l.init.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	err = l.init.Start()
	closeAll(files)
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	// If the init fails, it reports an error or ends. So errors of the pipe need no handling here.
	_ = l.orders.Encode(container)
	reports := json.NewDecoder(ours[1])
	var first report
	if err := reports.Decode(&first); err != nil || first.Error != "" {
		_ = l.init.Process.Kill()
		defer closeAll(ours)
		return nil, errors.Join(orEnded(first.Error, err), ignoreExit(l.init.Wait()))
	}
	l.pid = first.PID
	go func() {
		defer close(l.done)
		l.await(reports)
		closeAll(ours)
	}()
	return l, nil
}

// filesOf returns both ends of the init's pipes. The init's part also has the cgroup files of the
// command and of the init.
func filesOf(container *Container, group string) (theirs, ours []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(append(theirs, ours...))
		}
	}()
	plan, toPlan, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	theirs, ours = append(theirs, plan), append(ours, toPlan)
	fromReport, toReport, err := os.Pipe()
	if err != nil {
		return theirs, ours, err
	}
	theirs, ours = append(theirs, toReport), append(ours, fromReport)
	if !container.Grouped {
		return theirs, ours, nil
	}
	for _, path := range []string{cgroup.Container(group, container.Name), cgroup.Supervisor(group)} {
		file, err := os.OpenFile(filepath.Join(path, cgroup.Processes), os.O_WRONLY, 0)
		if err != nil {
			return theirs, ours, err
		}
		theirs = append(theirs, file)
	}
	return theirs, ours, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
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

// ignoreExit returns nil for errors that report the exit status of a process, and other errors
// unchanged.
func ignoreExit(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// await reads reports until the command has ended. If the init was killed, there is no report, and
// the command counts as killed.
func (l *launched) await(reports *json.Decoder) {
	l.exited = exited{Code: exitSignal + int32(unix.SIGKILL), Signal: int32(unix.SIGKILL)}
	for {
		var next report
		if err := reports.Decode(&next); err != nil {
			break
		}
		if next.Done != nil {
			l.answer(*next.Done)
		}
		if next.Exited != nil {
			l.exited = *next.Exited
			break
		}
	}
	_ = l.init.Wait()
	for _, stream := range l.streams {
		stream.flush()
	}
}

func (l *launched) answer(of done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wanted := l.wanted[of.Number]; wanted != nil {
		wanted <- of
		delete(l.wanted, of.Number)
	}
}

// errEnded says that the container ended before the process beside its command.
var errEnded = errors.New("the container ended")

// run runs a process beside the command, with the same privileges. When ctx ends, it kills the
// process, and returns the error of ctx.
func (l *launched) run(ctx context.Context, args []string) (done, error) {
	answer := make(chan done, 1)
	l.mu.Lock()
	l.latest++
	number := l.latest
	l.wanted[number] = answer
	err := l.orders.Encode(order{Number: number, Args: args})
	l.mu.Unlock()
	if err != nil {
		return done{}, errEnded
	}
	select {
	case ran := <-answer:
		if ran.Error != "" {
			return done{}, errors.New(ran.Error)
		}
		return ran, nil
	case <-l.done:
		return done{}, errEnded
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.wanted, number)
		_ = l.orders.Encode(order{Number: number}) // an error means that the container has ended
		return done{}, ctx.Err()
	}
}
