// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// screen keeps what is written to a terminal.
type screen struct {
	file *os.File
	lock sync.Mutex
	text strings.Builder
}

func (s *screen) Fd() uintptr { return s.file.Fd() }

func (s *screen) Write(text []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.Write(text)
}

// taken returns what was written since the last call.
func (s *screen) taken() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// TestProgress shows the steps of what takes longer than a second, leaves room for other lines, and is gone in the end.
func TestProgress(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("no terminal can be made: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	synctest.Test(t, func(t *testing.T) {
		out := &screen{file: terminal}
		p := newProgress(out, "placing", 8)
		time.Sleep(progressDelay - time.Millisecond)
		p.step()
		p.aside(func() { _, _ = out.Write([]byte("first")) })
		if text := out.taken(); text != "first" {
			t.Errorf("before the delay there is %q", text)
		}
		time.Sleep(2 * redraw)
		if text := out.taken(); !strings.Contains(text, "placing") || !strings.Contains(text, "1/8") {
			t.Errorf("after the delay there is %q", text)
		}
		p.step()
		p.step()
		time.Sleep(2 * redraw)
		if text := out.taken(); !strings.Contains(text, "3/8") {
			t.Errorf("after more steps there is %q", text)
		}
		p.aside(func() { _, _ = out.Write([]byte("second")) })
		if text := out.taken(); !cleared(strings.TrimSuffix(text, "second")) || !strings.HasSuffix(text, "second") {
			t.Errorf("another line is written as %q", text)
		}
		time.Sleep(2 * redraw)
		p.done()
		text := out.taken()
		if !strings.Contains(text, "3/8") {
			t.Errorf("after another line there is %q", text)
		}
		if at := strings.LastIndex(text, "placing"); at >= 0 && !cleared(text[strings.LastIndexAny(text, "\r\x1b"):]) {
			t.Errorf("in the end there is %q", text)
		}
		p.step()
		time.Sleep(time.Minute)
		if text := out.taken(); text != "" {
			t.Errorf("after the end there is %q", text)
		}

		short := newProgress(out, "reading", -1)
		short.step()
		time.Sleep(progressDelay / 2)
		short.done()
		time.Sleep(time.Minute)
		if text := out.taken(); text != "" {
			t.Errorf("of what takes no second there is %q", text)
		}
	})

	var file strings.Builder // which is no terminal
	p := newProgress(&file, "placing", 8)
	p.step()
	p.aside(func() { file.WriteString("line") })
	p.done()
	if file.String() != "line" {
		t.Errorf("there is %q in a file", file.String())
	}
}

// cleared reports whether a text has no more than what removes a line.
func cleared(text string) bool {
	return strings.TrimSpace(strings.NewReplacer("\x1b[2K", "", "\r", "").Replace(text)) == ""
}
