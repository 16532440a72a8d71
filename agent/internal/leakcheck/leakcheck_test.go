// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package leakcheck

import (
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// TestAwait finds a goroutine that stays, and waits for one that ends.
func TestAwait(t *testing.T) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	if err := await(0); err == nil || !strings.Contains(err.Error(), "TestAwait") {
		t.Errorf("a goroutine is left, and found is %v", err)
	}
	// It ends while goleak looks, or between two looks.
	time.AfterFunc(time.Second, func() { close(end) })
	if err := await(patience); err != nil {
		t.Errorf("all ended, and found is %v", err)
	}
	<-ended
}
