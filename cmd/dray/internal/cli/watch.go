// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// watchInterval is how often a command with --watch runs again.
const watchInterval = 2 * time.Second

func addWatch(command *cobra.Command, watch *bool) {
	command.Flags().BoolVarP(watch, "watch", "w", false, fmt.Sprintf("look again every %s, and print when anything has changed, until interrupted", watchInterval))
}

// repeat runs a command once. With --watch, it repeats the command until it is interrupted, and
// prints the output when that has changed. Only an error of the first run ends it. The exit code is
// that of the last run.
func (o *origin) repeat(ctx context.Context, watch bool, run func(context.Context) error) error {
	if !watch {
		return run(ctx)
	}
	out := o.streams.Out
	defer func() { o.streams.Out = out }()
	var last []byte
	var ending error
	complaint := ""
	for first := true; ; first = false {
		var printed bytes.Buffer
		o.streams.Out = &printed
		err := run(ctx)
		if ctx.Err() != nil && !first {
			return ending
		}
		ending = err
		switch {
		case err == nil || errors.Is(err, errNotPlaced) || errors.Is(err, errUndecided) || errors.Is(err, errReported):
			complaint = ""
		case first:
			return err
		default:
			// A file may be incomplete, or the API server temporarily unavailable.
			if complaint != err.Error() {
				complaint = err.Error()
				o.streams.report(err)
			}
			ending = errReported
		}
		if complaint == "" && (first || !bytes.Equal(last, printed.Bytes())) {
			if !first {
				fmt.Fprintln(out)
			}
			if _, err := out.Write(printed.Bytes()); err != nil {
				return err
			}
			last = printed.Bytes()
		}
		select {
		case <-ctx.Done():
			return ending
		case <-time.After(watchInterval):
		}
	}
}
