// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// Exit status of dray.
const (
	ExitOK        = 0 // all placed, or the question was answered with yes
	ExitNotPlaced = 1 // some pod or claim is not placed, or has no translation
	ExitError     = 2 // wrong usage or input, or no answer: out of time, or no way to write it
	// ExitInterrupted is what shells make of a process that SIGINT ends.
	ExitInterrupted = 128 + int(syscall.SIGINT)
)

// errNotPlaced ends a command whose output says what was not placed.
var errNotPlaced = errors.New("not everything is placed")

// errReported ends a command whose output says what is wrong with the input.
var errReported = errors.New("wrong input")

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a command line and returns the exit status. Args[0] is how the program was
// called: as kubectl-dray it is a plugin of kubectl and presents itself as such, as
// kubectl_complete-dray it completes the plugin's arguments for kubectl.
func Main(ctx context.Context, args []string, streams Streams) int {
	// What libraries log is not for users of a command: errors are returned.
	silenceLibraries()
	name, arguments := programName(args[0]), args[1:]
	out := &written{out: streams.Out}
	streams.Out = out
	if isCompleter(args[0]) {
		arguments = append([]string{cobra.ShellCompRequestCmd}, arguments...)
	}
	command := newRoot(name, streams)
	command.SetArgs(arguments)
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.Err)
	refuseUnknown(command)
	err := command.ExecuteContext(ctx)
	if out.err != nil {
		err = out.err
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errNotPlaced):
		return ExitNotPlaced
	case errors.Is(err, errRefused):
		streams.report(err)
		return ExitNotPlaced
	case errors.Is(err, errReported):
		return ExitError
	}
	streams.report(err)
	if ctx.Err() != nil {
		return ExitInterrupted
	}
	return ExitError
}

// silenceLibraries throws their logs away. With an output of its own, klog would still write errors to standard error.
var silenceLibraries = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

func programName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if plugin, isPlugin := strings.CutPrefix(strings.Replace(name, completer, "kubectl-", 1), "kubectl-"); isPlugin {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "dray"
}

func isCompleter(path string) bool { return strings.HasPrefix(filepath.Base(path), completer) }

// report prints an error, or the first of many.
func (s Streams) report(err error) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, each := range all[:min(mostReported, len(all))] {
		s.note("error: %s", each.Error())
	}
	if len(all) > mostReported {
		s.note("error: and %d more", len(all)-mostReported)
	}
}

// note prints one line for people beside the output.
func (s Streams) note(format string, args ...any) {
	fmt.Fprintln(s.Err, render.Printable(fmt.Sprintf(format, args...)))
}

// StandardStreams are those of the process.
func StandardStreams() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// written is an output that remembers the first error of writing to it: text for people is
// printed in many places, none of which looks.
type written struct {
	out io.Writer
	err error
}

// Write implements io.Writer.
func (w *written) Write(content []byte) (int, error) {
	n, err := w.out.Write(content)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// Fd is the file that is written to, which may be a terminal, or no file.
func (w *written) Fd() uintptr {
	if file, ok := w.out.(*os.File); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}
