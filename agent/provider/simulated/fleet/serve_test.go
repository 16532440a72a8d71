// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestPausesOfRetries: they get longer with each failure, and begin anew after a success.
func TestPausesOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, queue := time.Now(), newMemberQueue()
		var at []time.Duration
		f := &Fleet{members: []*member{{name: "node-0"}}}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.serve(t.Context(), queue, "It is done again", func(context.Context, *member) (time.Duration, error) {
				switch at = append(at, time.Since(began)); len(at) {
				case 4:
					return time.Minute, nil
				case 7:
					return 0, nil
				}
				return 0, errors.New("no")
			})
		}()
		queue.Add(0)
		time.Sleep(time.Hour)
		queue.ShutDown()
		<-ended
		var pauses []time.Duration
		for i := 1; i < len(at); i++ {
			pauses = append(pauses, at[i]-at[i-1])
		}
		if want := []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry, time.Minute, firstRetry, 2 * firstRetry}; !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
	})
}
