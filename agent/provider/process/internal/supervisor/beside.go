// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput is how much is kept of what a process beside a command writes, in bytes, as kubelet
// does for probes.
const maxOutput = 10 << 10

// outputDelay is how long what was written is waited for when a process has ended and one that
// it left behind goes on writing.
const outputDelay = 100 * time.Millisecond

// beside is a process that an init was told to run beside the command.
type beside struct {
	number int
	output *os.File
	kept   bytes.Buffer
	read   chan struct{} // closed when no more comes
}

// obey does what the supervisor says, until it says no more.
func (in *commandRunner) obey() {
	for {
		var next order
		if err := in.orders.Decode(&next); err != nil {
			return
		}
		if len(next.Args) == 0 {
			in.kill(next.Number)
			continue
		}
		if err := in.runBeside(next); err != nil {
			_ = in.tell(report{Done: &done{Number: next.Number, Error: err.Error()}})
		}
	}
}

func (in *commandRunner) runBeside(next order) error {
	output, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = write.Close() }()
	b := &beside{number: next.Number, output: output, read: make(chan struct{})}
	in.mu.Lock()
	defer in.mu.Unlock()
	pid, err := in.start(next.Args, write, write)
	if err != nil {
		return errors.Join(err, output.Close())
	}
	in.beside[pid] = b
	go b.follow()
	return nil
}

// follow reads what the process writes, and keeps the beginning.
func (b *beside) follow() {
	defer close(b.read)
	if _, err := io.CopyN(&b.kept, b.output, maxOutput); err == nil {
		_, _ = io.Copy(io.Discard, b.output)
	}
}

// end is what is told when the process has ended.
func (b *beside) end(how exited) *done {
	_ = b.output.SetReadDeadline(time.Now().Add(outputDelay))
	<-b.read
	_ = b.output.Close()
	return &done{Number: b.number, exited: how, Output: b.kept.Bytes()}
}

// kill ends what was started for an order.
func (in *commandRunner) kill(number int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for pid, b := range in.beside {
		if b.number == number {
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
	}
}
