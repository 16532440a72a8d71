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

// Exit codes of dray.
const (
	ExitOK        = 0 // everything is placed, or the answer is yes
	ExitNotPlaced = 1 // a pod or claim is not placed, or an object has no translation
	ExitError     = 2 // wrong usage or input, a timeout, or an error of the output
	ExitUndecided = 3 // nothing is known to have no place, but of something it is not known whether it has one
	// ExitInterrupted is the exit code that shells use after SIGINT.
	ExitInterrupted = 128 + int(syscall.SIGINT)
)

// errNotPlaced ends a command that has printed what was not placed.
var errNotPlaced = errors.New("not everything is placed")

// errUndecided ends a command that has printed of what it is not known whether it has a place.
var errUndecided = errors.New("not everything is decided")

// errReported ends a command that has printed what is wrong with the input.
var errReported = errors.New("wrong input")

// worse returns the error that counts for the exit status: wrong input before a certain no, and that before an undecided answer.
func worse(a, b error) error {
	for _, err := range []error{errReported, errNotPlaced, errUndecided} {
		if errors.Is(a, err) || errors.Is(b, err) {
			return err
		}
	}
	return nil
}

// notPlaced returns the error for what has no place. If mayFit is set, it may have one all the same.
func notPlaced(mayFit bool) error {
	if mayFit {
		return errUndecided
	}
	return errNotPlaced
}

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a command line, and returns the exit code. args[0] is the name of the program. As
// kubectl-dray, it is a kubectl plugin, and uses that name in its help. As kubectl_complete-dray,
// it completes the plugin's arguments for kubectl.
func Main(ctx context.Context, args []string, streams Streams) int {
	// Users of a command do not need the logs of libraries, since errors are returned.
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
	case errors.Is(err, errUndecided):
		return ExitUndecided
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

// silenceLibraries discards logs of libraries. Setting klog's output is not enough, since it still
// writes errors to standard error.
var silenceLibraries = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

func programName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if plugin, isPlugin := strings.CutPrefix(strings.Replace(name, completer, "kubectl-", 1), "kubectl-"); isPlugin {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "dray"
}

func isCompleter(path string) bool { return strings.HasPrefix(filepath.Base(path), completer) }

// report prints an error, or the first ones of many.
func (s Streams) report(err error) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, each := range all[:min(maxReported, len(all))] {
		s.note("error: %s", each.Error())
	}
	if len(all) > maxReported {
		s.note("error: and %d more", len(all)-maxReported)
	}
}

// note prints a line for users, apart from the output.
func (s Streams) note(format string, args ...any) {
	fmt.Fprintln(s.Err, render.Printable(fmt.Sprintf(format, args...)))
}

// StandardStreams returns the streams of the process.
func StandardStreams() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// written is a writer that remembers its first error. Many functions print without checking errors.
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

// Fd returns the file descriptor of the underlying writer, or an invalid one.
func (w *written) Fd() uintptr {
	if file, ok := w.out.(*os.File); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}
