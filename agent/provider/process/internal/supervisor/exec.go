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

// maxOutput is how much of a probe command's output is kept, in bytes. Kubelet has the same limit.
const maxOutput = 10 << 10

// outputDelay is how long to read output after a command has ended, if its descendants keep the
// pipe open.
const outputDelay = 100 * time.Millisecond

// execRun is a process that runs beside the container's command, such as that of an exec probe.
type execRun struct {
	number int
	output *os.File
	head   bytes.Buffer
	read   chan struct{} // closed when all output was read
}

// execOrders carries out the orders of the supervisor, until the pipe is closed.
func (in *commandRunner) execOrders() {
	for {
		var next order
		if err := in.orders.Decode(&next); err != nil {
			return
		}
		if len(next.Args) == 0 {
			in.kill(next.Number)
			continue
		}
		if err := in.execBeside(next); err != nil {
			_ = in.send(report{Done: &done{Number: next.Number, Error: err.Error()}})
		}
	}
}

func (in *commandRunner) execBeside(next order) error {
	output, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = write.Close() }()
	b := &execRun{number: next.Number, output: output, read: make(chan struct{})}
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

// follow reads the output of the process, and keeps the first maxOutput bytes.
func (b *execRun) follow() {
	defer close(b.read)
	if _, err := io.CopyN(&b.head, b.output, maxOutput); err == nil {
		_, _ = io.Copy(io.Discard, b.output)
	}
}

// result returns the report about a process that has ended.
func (b *execRun) result(how exited) *done {
	_ = b.output.SetReadDeadline(time.Now().Add(outputDelay))
	<-b.read
	_ = b.output.Close()
	return &done{Number: b.number, exited: how, Output: b.head.Bytes()}
}

// kill kills the process of an order, and its process group.
func (in *commandRunner) kill(number int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for pid, b := range in.beside {
		if b.number == number {
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
	}
}
