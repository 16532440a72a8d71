// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"strconv"
	"strings"
)

// CompileError says why an expression cannot be used.
type CompileError struct {
	Expression string
	// Line and Column count from 1 and locate the first problem. Both are 0 if the
	// problem is with the expression as a whole.
	Line, Column int
	// Message describes the first problem.
	Message string
	// Err is the full report of the compiler, nil if there is none.
	Err error
}

// Error implements error.
func (e *CompileError) Error() string {
	return describe(e.Expression, e.Line, e.Column) + ": " + e.Message
}

// Unwrap returns the compiler's report.
func (e *CompileError) Unwrap() error { return e.Err }

// EvalError says why an expression has no result for a device. It does not name the device, as equal devices
// share the error.
type EvalError struct {
	Expression string
	// Line and Column count from 1. Both are 0 if the position is not known.
	Line, Column int
	// Hint says how to fix it, empty if that is not known.
	Hint string
	// Err is the cause, never nil. After a cancellation it wraps the context's cause.
	Err error
}

// Error implements error.
func (e *EvalError) Error() string {
	text := describe(e.Expression, e.Line, e.Column) + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *EvalError) Unwrap() error { return e.Err }

// quotedLength is how many characters of an expression an error message quotes.
const quotedLength = 100

func describe(expression string, line, column int) string {
	short := strings.Join(strings.Fields(expression), " ")
	if runes := []rune(short); len(runes) > quotedLength {
		short = string(runes[:quotedLength]) + "..."
	}
	quoted := strconv.Quote(short)
	if strconv.CanBackquote(short) {
		quoted = "`" + short + "`" // expressions are full of quotes
	}
	if line == 0 {
		return "CEL expression " + quoted
	}
	return fmt.Sprintf("CEL expression %s, line %d, column %d", quoted, line, column)
}
