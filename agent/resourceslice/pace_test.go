// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestPace: a driver that updates a thousand times a second has no more attempts made than
// one that waits, whatever the API server answers. In the end, the last update is published.
func TestPace(t *testing.T) {
	for name, test := range map[string]struct {
		err error
		// starts are when attempts begin, in milliseconds after the first.
		starts []int
	}{
		// The writes themselves are at least 250 ms apart.
		"accepted":    {nil, []int{0, 250, 500, 750, 1000, 1250, 1500, 1750}},
		"invalid":     {apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice").GroupKind(), "s", nil), []int{0, 250, 500, 750, 1000, 1250, 1500, 1750}},
		"throttled":   {apierrors.NewTooManyRequests("slow down", 0), []int{0, 250, 750, 1750, 3750, 7750}},
		"asks for 3s": {apierrors.NewTooManyRequests("slow down", 3), []int{0, 3000, 6000, 9000}},
		"internal":    {apierrors.NewInternalError(errors.New("boom")), []int{0, 250, 750, 1750, 3750, 7750}},
		"connection":  {errors.New("connection refused"), []int{0, 250, 750, 1750, 3750, 7750}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
				c.Update(pool(devices("a")))
				after(time.Minute)
				var attempts []int
				var first time.Time
				s.setRefuse(func(string, *resourceapi.ResourceSlice) error {
					if first.IsZero() {
						first = time.Now()
					}
					attempts = append(attempts, int(time.Since(first).Milliseconds()))
					return test.err
				})
				last := ""
				for i := range 10_000 {
					last = fmt.Sprint("a-", i)
					c.Update(pool(devices(last)))
					after(time.Millisecond)
				}
				if len(attempts) < len(test.starts) || !about(attempts[:len(test.starts)], test.starts) {
					t.Errorf("attempts after %v ms, want %v", attempts[:min(len(attempts), len(test.starts))], test.starts)
				}
				for i := 1; i < len(attempts); i++ {
					if gap := attempts[i] - attempts[i-1]; gap < int(writeInterval.Milliseconds()) {
						t.Errorf("attempt %d is %d ms after the one before", i, gap)
					}
				}
				s.setRefuse(nil)
				after(maxWriteInterval + time.Second)
				if got, want := s.published(t), []string{node + "/1: 00000=" + last}; !slices.Equal(got, want) {
					t.Errorf("published %q, want %q", got, want)
				}
			})
		})
	}
}

// about compares numbers to within the time between two updates.
func about(got, want []int) bool {
	return slices.EqualFunc(got, want, func(a, b int) bool { return a-b >= 0 && a-b <= 10 })
}
