// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
)

// located is an error with its line in the scenario file.
type located struct {
	line int
	err  error
}

func (e *located) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *located) Unwrap() error { return e.err }

// at adds a line to err, unless it has one.
func at(line int, err error) error {
	var l *located
	if err == nil || errors.As(err, &l) {
		return err
	}
	return &located{line, err}
}

// within adds the field that err is about, after the line.
func within(field string, err error) error {
	if err == nil {
		return nil
	}
	l := &located{}
	if errors.As(err, &l) {
		return &located{l.line, fmt.Errorf("%s: %w", field, l.err)}
	}
	return fmt.Errorf("%s: %w", field, err)
}

// inFile turns an error into the form file:line: field: message.
func inFile(file string, err error) error {
	l := &located{}
	if errors.As(err, &l) {
		return fmt.Errorf("%s:%d: %w", file, l.line, l.err)
	}
	return fmt.Errorf("%s: %w", file, err)
}
