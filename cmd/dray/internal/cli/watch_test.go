// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// What a look prints is passed on if it differs from what was passed on before, whatever failed in between. The last look decides how the
// command ends.
func TestRepeat(t *testing.T) {
	type look struct {
		prints string
		err    error
	}
	broken, other := errors.New("no such file"), errors.New("no API server")
	for name, test := range map[string]struct {
		looks    []look
		out, err string
		want     error
	}{
		"nothing changes":         {[]look{{"a", nil}, {"a", nil}, {"a", nil}}, "a", "", nil},
		"and back":                {[]look{{"a", nil}, {"b", nil}, {"a", nil}, {"a", nil}}, "a\nb\na", "", nil},
		"nothing is printed":      {[]look{{"", nil}, {"", nil}, {"a", nil}}, "\na", "", nil},
		"not placed in the end":   {[]look{{"a", nil}, {"b", errNotPlaced}}, "a\nb", "", errNotPlaced},
		"it fails at first":       {[]look{{"a", broken}}, "", "", broken},
		"it fails, and then not":  {[]look{{"a", nil}, {"half", broken}, {"half", broken}, {"a", nil}, {"b", nil}}, "a\nb", "error: no such file\n", nil},
		"it fails in another way": {[]look{{"a", nil}, {"", broken}, {"", other}, {"", broken}}, "a", "error: no such file\nerror: no API server\nerror: no such file\n", errReported},
		"it fails twice":          {[]look{{"a", nil}, {"", broken}, {"a", nil}, {"", broken}}, "a", "error: no such file\nerror: no such file\n", errReported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var out, err bytes.Buffer
				o := newOrigin("dray", Streams{In: nil, Out: &out, Err: &err})
				rest := test.looks
				got := o.repeat(ctx, true, func(context.Context) error {
					if len(rest) == 0 {
						cancel()
						fmt.Fprint(o.streams.Out, "interrupted")
						return nil
					}
					now := rest[0]
					rest = rest[1:]
					fmt.Fprint(o.streams.Out, now.prints)
					return now.err
				})
				if out.String() != test.out || err.String() != test.err || !errors.Is(got, test.want) || len(rest) > 0 {
					t.Errorf("printed %q and %q, and ended with %v; want %q, %q, %v", out.String(), err.String(), got, test.out, test.err, test.want)
				}
			})
		})
	}
}
