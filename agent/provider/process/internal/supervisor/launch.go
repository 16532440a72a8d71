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

// order is what an init is told after its container: to run something beside the command, or
// to end that.
type order struct {
	Number int      `json:"number"`
	Args   []string `json:"args,omitempty"` // none: it is to end
}

// report is what an init says. Only one of its fields is set.
type report struct {
	// PID says that the command runs. It is the init's, as the machine sees it.
	PID int `json:"pid,omitempty"`
	// Error is why the command does not run.
	Error string `json:"error,omitempty"`
	// Exited is how the command ended.
	Exited *exited `json:"exited,omitempty"`
	// Done is how an order ended.
	Done *done `json:"done,omitempty"`
}

// exited is how a process ended.
type exited struct {
	Code   int32 `json:"code"`
	Signal int32 `json:"signal,omitempty"`
}

// done is how an order ended.
type done struct {
	Number int `json:"number"`
	exited
	// Output is what it wrote, or the beginning of that.
	Output []byte `json:"output,omitempty"`
	// Error is why it did not run.
	Error string `json:"error,omitempty"`
}

// launched is a container that runs.
type launched struct {
	init    *exec.Cmd
	pid     int
	streams [2]*stream    // standard output and error
	done    chan struct{} // closed when no process of it runs any more
	// How the command ended. To be read after done.
	exited

	mu     sync.Mutex
	orders *json.Encoder
	latest int // number of an order
	wanted map[int]chan done
}

// launch starts a container, and returns when its command runs. The group is the pod's, or
// empty.
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
	// An init that fails says so, or ends.
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

// filesOf makes the pipes of an init, and opens the groups that it and its command are in.
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

// ignoreExit leaves errors that are not about how a process ended.
func ignoreExit(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// await finds out how the command ended. An init that is killed does not say it.
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

// errEnded says that a container ended before what ran beside its command.
var errEnded = errors.New("the container ended")

// run runs something beside the command, with no other rights. When ctx ends it is killed, and
// run returns the error of ctx.
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
		_ = l.orders.Encode(order{Number: number}) // a container that ended has nothing to end
		return done{}, ctx.Err()
	}
}
