// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package ending_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dray-project/dray/internal/dev/ending"
)

// recorder is a test that notes how it fails.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(r)
}

func TestAnywhere(t *testing.T) {
	looks := func(n int, ended func(i int) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			for i := range n {
				if err := ctx.Err(); err != nil {
					text, as := ended(i)
					if as == nil {
						return text, nil
					}
					return text, errors.Join(as, err)
				}
			}
			return "all", nil
		}
	}
	cause := errors.New("looked")
	passes := func(int) (string, error) { return "", cause }
	for name, test := range map[string]struct {
		call   func(context.Context) (string, error)
		ended  int
		failed string
	}{
		"never looks":           {looks(0, passes), 0, ""},
		"looks twice":           {looks(2, passes), 2, ""},
		"looks 100 times":       {looks(100, passes), 79, ""},
		"an error is dropped":   {looks(3, func(i int) (string, error) { return "some", []error{cause, nil, cause}[i] }), 0, `the context ended after 1 looks: found "some", <nil>; without an end "all"`},
		"another error":         {func(ctx context.Context) (string, error) { return "", cause }, 0, "without an end: looked"},
		"complete all the same": {looks(3, func(i int) (string, error) { return "all", []error{cause, cause, nil}[i] }), 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			ended := func() (n int) {
				defer func() {
					if recovered := recover(); recovered != nil && recovered != any(r) {
						panic(recovered)
					}
				}()
				return ending.Anywhere(r, test.call)
			}()
			if ended != test.ended || r.failed != test.failed {
				t.Errorf("ended early %d times, want %d; failed: %q, want %q", ended, test.ended, r.failed, test.failed)
			}
		})
	}
}
