// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// record identifies the process of a supervisor. The kernel reuses PIDs, but not with the same
// start time in the same boot.
type record struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since the boot
	Boot  string `json:"boot"`
}

func recordOf(pid int) (record, error) {
	start, err := startOf(pid)
	if err != nil {
		return record{}, fmt.Errorf("start of process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return record{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, err
}

// startOf returns the start time of a process, from /proc/PID/stat.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The program's name is in brackets, and may contain any character. So fields are split after
	// the last bracket.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const start = 19 // index of field 22; field 3 is the first after the name
	if len(fields) <= start {
		return 0, errors.New("not the form of /proc/PID/stat")
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// open returns a pidfd of the process, or nil if the process has ended or never existed.
func (r record) open() (*os.File, error) {
	if r.PID <= 0 {
		return nil, nil
	}
	fd, err := unix.PidfdOpen(r.PID, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // EINVAL: the PID is now that of a thread
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("process %d: %w", r.PID, err)
	}
	// A pidfd refers to the process that has the PID now, whatever happens to the PID later. So
	// check the identity after opening it.
	now, err := recordOf(r.PID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		return nil, errors.Join(err, unix.Close(fd))
	}
	if err != nil || now != r {
		return nil, unix.Close(fd)
	}
	return os.NewFile(uintptr(fd), "supervisor"), nil
}

// awaitEnd returns when the process of a pidfd has ended, or the pidfd is closed.
func awaitEnd(pidfd *os.File) {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(hasEnded)
}

// isOver tells whether a process has ended. That includes zombies.
func isOver(pidfd *os.File) bool {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	err = conn.Control(func(fd uintptr) { over = hasEnded(fd) })
	return err == nil && over
}

func hasEnded(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}
