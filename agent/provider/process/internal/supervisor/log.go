// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of logs. They are kubelet's defaults.
const (
	maxLogSize  = 10 << 20 // of a file, in bytes
	maxLogFiles = 5        // per start of a container
	keptStarts  = 2        // the latest start, and the one before for kubectl logs --previous
	maxLine     = 16 << 10 // longer lines are written in parts

	maxTermination      = 2048 // bytes of the log that are the message of a container that failed
	maxTerminationLines = 80
)

// log is the log file of a container in CRI format. Each line has its time, its stream, and whether
// it is complete.
type log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	last []byte // what was written last, at most maxTermination bytes
}

// openLog opens the log for a start of a container, and removes logs of old starts.
func openLog(folder string, restarts int32) (*log, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	if old := int(restarts) - keptStarts; old >= 0 {
		for i := range maxLogFiles {
			if err := os.Remove(rotated(LogFile(folder, old), i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	l := &log{path: LogFile(folder, int(restarts))}
	return l, l.open()
}

// LogFile returns the path of the log for a start of a container, below the container's folder.
func LogFile(folder string, restarts int) string {
	return filepath.Join(folder, strconv.Itoa(restarts)+".log")
}

// rotated returns the path of a log after that many rotations.
func rotated(path string, times int) string {
	if times == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, times)
}

func (l *log) open() (err error) {
	l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	l.size = 0
	return err
}

func (l *log) close() { _ = l.file.Close() } // all data was written before

// rotate begins a new file, and deletes the oldest one.
func (l *log) rotate() error {
	l.close()
	for i := maxLogFiles - 1; i > 0; i-- {
		if err := os.Rename(rotated(l.path, i-1), rotated(l.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.open()
}

// stream returns the writer for one stream of the container.
func (l *log) stream(name string) *stream { return &stream{log: l, name: name} }

// stream splits output into lines, and adds them to the log.
type stream struct {
	log  *log
	name string
	rest []byte // the start of an incomplete line
}

// Write never returns an error, so that a full disk does not end a container. As in containerd, a
// line ends with \n or \r\n, and is whole if it has maxLine bytes.
func (s *stream) Write(content []byte) (int, error) {
	written := len(content)
	s.rest = append(s.rest, content...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte{'\n'})
		if whole {
			line = bytes.TrimSuffix(line, []byte{'\r'})
		}
		switch {
		case whole && len(line) <= maxLine:
			s.log.add(s.name, 'F', line)
			s.rest = rest
		case len(s.rest) > maxLine:
			s.log.add(s.name, 'P', s.rest[:maxLine])
			s.rest = s.rest[maxLine:]
		default:
			s.rest = bytes.Clone(s.rest)
			return written, nil
		}
	}
}

// flush writes the last line if it is incomplete. It stays incomplete in the log, so that readers
// add no end of line.
func (s *stream) flush() {
	if len(s.rest) > 0 {
		s.log.add(s.name, 'P', s.rest)
		s.rest = nil
	}
}

func (l *log) add(stream string, tag byte, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, line...)
	if tag == 'F' {
		l.last = append(l.last, '\n')
	}
	l.last = l.last[:copy(l.last, l.last[max(0, len(l.last)-maxTermination):])]
	if l.size >= maxLogSize {
		if err := l.rotate(); err != nil {
			fmt.Fprintln(os.Stderr, "rotate", l.path, err)
		}
	}
	text := fmt.Appendf(nil, "%s %s %c %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, line)
	n, _ := l.file.Write(text)
	l.size += int64(n)
}

// termination returns the last lines of both streams, for the status of a container.
func (l *log) termination() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.Collect(bytes.Lines(l.last))
	return strings.ToValidUTF8(string(bytes.Join(lines[max(0, len(lines)-maxTerminationLines):], nil)), "\uFFFD")
}
