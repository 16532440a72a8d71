// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noArguments is for commands without arguments. Its error assumes that an argument is meant as a
// file.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s has no arguments, got %q: files are given with -f", command.CommandPath(), args[0])
	}
	return nil
}

// someArguments is for commands with least to most arguments, which errors call name. A most of -1
// stands for no limit.
func someArguments(name string, least, most int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) < least {
			return fmt.Errorf("%s: %s is missing", command.CommandPath(), name)
		}
		if most >= 0 && len(args) > most {
			return fmt.Errorf("%s has one %s, got %s", command.CommandPath(), name, strings.Join(args, " "))
		}
		return nil
	}
}

// refuseUnknown makes the commands help and completion of cobra return an error for unknown
// arguments. The output of root must be set.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() {
		case "help":
			command.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		case "completion":
			command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
		}
	}
}

// wanted describes valid values of flags, by type.
var wanted = map[string]string{
	"bool": "true or false", "duration": "a duration, as in 30s or 1m30s", "int": "a whole number", "int64": "a whole number", "stringToInt": "NODE=COUNT,...",
}

// wrongFlag returns an error about the value of a flag, without the names of parser functions.
func wrongFlag(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	want, known := wanted[flag.Value.Type()]
	if !known {
		return fmt.Errorf("--%s %s: %w", flag.Name, invalid.GetValue(), errors.Unwrap(invalid))
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok && errors.Is(number, strconv.ErrRange) {
		want = "a smaller number"
	}
	return fmt.Errorf("--%s %s: want %s", flag.Name, invalid.GetValue(), want)
}
