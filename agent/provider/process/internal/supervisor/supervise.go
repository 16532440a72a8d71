// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dray-project/dray/agent/internal/checkpoint"
)

// The value of argv[0] that makes this program a supervisor or an init.
const (
	supervisorName = "dray-pod"
	initName       = "dray-container"
)

// Main does not return if this process is a supervisor or an init. Programs that call Create must
// call it first in main.
func Main() {
	switch {
	case len(os.Args) == 2 && os.Args[0] == supervisorName:
		if err := supervise(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 1 && os.Args[0] == initName:
		initialize()
		os.Exit(1)
	}
}

// running is a pod that this supervisor runs.
type running struct {
	folder string
	plan   *Plan

	// members are the containers of the pod: init containers first.
	members []*member

	mu       sync.Mutex
	state    State
	deadline time.Time     // when remaining processes are killed; zero unless the pod is ending
	ending   chan struct{} // closed when the pod begins to end
	sooner   chan struct{} // closed and replaced when the deadline changes
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
	if err := r.readEnding(); err != nil { // End may have been called before the signal handler was installed
		return err
	}
	go func() {
		for range signals {
			r.logError(r.readEnding())
		}
	}()
	if err := enclose(r.plan); err != nil {
		return err
	}
	if err := mountMemory(folder, plan); err != nil {
		return err
	}
	return r.run()
}

// logError logs an error that does not end the pod.
func (r *running) logError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// enclose sets up what the containers of the pod share: mounts, /dev/shm, host name and network.
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

// readEnding reads whether the pod is to end, and by when.
func (r *running) readEnding() error {
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

// awaitDeadline returns at the deadline of the ending pod, or when done is closed. It follows
// changes of the deadline.
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
