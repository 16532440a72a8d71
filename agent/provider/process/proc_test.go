// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// processes are those of the fixture's pods: the supervisors, which have their folder among
// their arguments, and all that descend from them. They are found by /proc alone.
func (f *fixture) processes(t *testing.T) []int {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parents := make(map[int]int)
	var found []int
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			continue // it ended meanwhile
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if fields[0] == "Z" {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		if arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(arguments), f.options.Folder) {
			found = append(found, pid)
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if slices.Contains(found, parent) && !slices.Contains(found, pid) {
				found, grown = append(found, pid), true
			}
		}
	}
	// A process comes after its parent, whose number may be the greater one.
	depth := func(pid int) (n int) {
		for parent := parents[pid]; slices.Contains(found, parent); parent = parents[parent] {
			n++
		}
		return n
	}
	slices.SortFunc(found, func(a, b int) int { return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b)) })
	return found
}

// kill kills a process, and waits until it and all its threads have ended: the kernel forgets its
// command line before that.
func kill(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		switch n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(deadline).Milliseconds())); {
		case n == 1:
			return
		case !errors.Is(err, unix.EINTR):
			t.Fatalf("process %d does not end: %v", pid, err)
		}
	}
}

// expectNoProcess waits until none of the fixture's pods has a process.
func (f *fixture) expectNoProcess(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left := f.processes(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v outlive their pods", left)
		}
	}
}

// commandOf is the process of a container that runs: the child of its init, whose number its
// status has.
func commandOf(t *testing.T, status *corev1.PodStatus) int {
	t.Helper()
	init := initOf(t, status)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", init, init))
	if err != nil {
		t.Fatal(err)
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", init))
	for _, thread := range threads { // one of them started it
		more, _ := os.ReadFile(thread)
		text = append(text, more...)
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		t.Fatalf("init %d has no child", init)
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func initOf(t *testing.T, status *corev1.PodStatus) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(status.ContainerStatuses[0].ContainerID, "process://"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// statusOf is /proc/PID/status.
func statusOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.Join(strings.Fields(value), " ")
	}
	return out
}

// environmentOf is /proc/PID/environ, in order of names.
func environmentOf(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := slices.DeleteFunc(strings.Split(string(text), "\x00"), func(variable string) bool { return variable == "" })
	slices.Sort(out)
	return out
}
