// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// gracePeriod is how long a process may take to end after SIGTERM.
	gracePeriod = 20 * time.Second
	pollPeriod  = 50 * time.Millisecond
	// tailLength is how much of a log an error quotes, in bytes.
	tailLength = 2000
)

// component is one running process of the control plane.
type component struct {
	name    string
	command *exec.Cmd
	logPath string
	exited  chan struct{} // closed when the process is gone
	failure error         // what Wait returned; read it after exited
}

// launch starts a program that appends what it writes to name.log in folder. It does not
// receive what a terminal sends to the caller, so that the order of ending is the caller's.
func launch(folder, name, path string, args []string) (*component, error) {
	c := &component{name: name, logPath: filepath.Join(folder, name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	// The process has its own descriptor.
	defer func() { _ = log.Close() }()
	c.command = exec.Command(path, args...)
	c.command.Dir, c.command.Stdout, c.command.Stderr = folder, log, log
	c.command.SysProcAttr = detached()
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		c.failure = c.command.Wait()
		close(c.exited)
	}()
	return c, nil
}

// await polls until ready returns nil. It gives up when the process ends or ctx does.
func (c *component) await(ctx context.Context, ready func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		if c.gone() {
			return false, fmt.Errorf("%s ended: %w", c.name, errors.Join(c.failure))
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("wait for %s: %w; its log %s ends with\n%s", c.name, errors.Join(err, last), c.logPath, c.tail())
}

func (c *component) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// terminate asks the process to end, and kills it if it does not within the grace period.
func (c *component) terminate() error {
	if c == nil || c.gone() {
		return nil
	}
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("terminate %s: %w", c.name, err)
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(gracePeriod):
		return errors.Join(fmt.Errorf("terminate %s: still running after %v", c.name, gracePeriod), c.kill())
	}
}

// kill ends the process where it stands, and waits until it is gone.
func (c *component) kill() error {
	if c == nil || c.gone() {
		return nil
	}
	if err := c.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	<-c.exited
	return nil
}

// tail is the end of the log, from the start of a line.
func (c *component) tail() string {
	text, err := os.ReadFile(c.logPath)
	if err != nil {
		return err.Error()
	}
	if len(text) <= tailLength {
		return string(text)
	}
	_, end, _ := strings.Cut(string(text[len(text)-tailLength:]), "\n")
	return end
}
