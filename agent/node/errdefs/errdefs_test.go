// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package errdefs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// foreign is an error as another package would classify it.
type foreign struct{ notFound, invalid bool }

func (foreign) Error() string        { return "foreign" }
func (e foreign) NotFound() bool     { return e.notFound }
func (e foreign) InvalidInput() bool { return e.invalid }

// caused wraps without Unwrap, as errors did before Go 1.13.
type caused struct{ error }

func (c caused) Cause() error { return c.error }

func TestClasses(t *testing.T) {
	for name, c := range map[string]struct {
		err               error
		notFound, invalid bool
	}{
		"nil":                           {},
		"plain":                         {err: errors.New("plain")},
		"not found":                     {err: errdefs.NotFound("x"), notFound: true},
		"not found, formatted":          {err: errdefs.NotFoundf("pod %s", "a"), notFound: true},
		"made not found":                {err: errdefs.AsNotFound(errors.New("x")), notFound: true},
		"invalid":                       {err: errdefs.InvalidInput("x"), invalid: true},
		"invalid, formatted":            {err: errdefs.InvalidInputf("pod %s", "a"), invalid: true},
		"made invalid":                  {err: errdefs.AsInvalidInput(errors.New("x")), invalid: true},
		"both":                          {err: errdefs.AsInvalidInput(errdefs.NotFound("x")), notFound: true, invalid: true},
		"wrapped":                       {err: fmt.Errorf("a: %w", errdefs.NotFound("x")), notFound: true},
		"joined":                        {err: errors.Join(errors.New("a"), errdefs.InvalidInput("x")), invalid: true},
		"caused":                        {err: caused{caused{errdefs.NotFound("x")}}, notFound: true},
		"wrapped, caused":               {err: fmt.Errorf("a: %w", caused{errdefs.InvalidInput("x")}), invalid: true},
		"foreign, not found":            {err: foreign{notFound: true}, notFound: true},
		"foreign, invalid":              {err: fmt.Errorf("a: %w", foreign{invalid: true}), invalid: true},
		"foreign says no":               {err: foreign{}},
		"the outermost opinion decides": {err: errors.Join(foreign{}, errdefs.NotFound("x"))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errdefs.IsNotFound(c.err); got != c.notFound {
				t.Errorf("IsNotFound: got %t", got)
			}
			if got := errdefs.IsInvalidInput(c.err); got != c.invalid {
				t.Errorf("IsInvalidInput: got %t", got)
			}
		})
	}
}

func TestWrappingKeepsTheError(t *testing.T) {
	cause := errors.New("cause")
	for _, err := range []error{errdefs.AsNotFound(cause), errdefs.AsInvalidInput(cause), errdefs.NotFoundf("a: %w", cause), errdefs.InvalidInputf("a: %w", cause)} {
		if !errors.Is(err, cause) {
			t.Errorf("%v does not wrap its cause", err)
		}
	}
	if text := errdefs.AsNotFound(cause).Error(); text != "cause" {
		t.Errorf("the text became %q", text)
	}
	if errdefs.AsNotFound(nil) != nil || errdefs.AsInvalidInput(nil) != nil {
		t.Error("nil became an error")
	}
}
