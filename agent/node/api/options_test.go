// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"
	"time"

	"github.com/dray-project/dray/agent/node/api"
)

func applied[C any, O ~func(*C)](options ...O) (c C) {
	for _, option := range options {
		option(&c)
	}
	return c
}

// TestOptions: each option sets its own field.
func TestOptions(t *testing.T) {
	forwards := applied[api.PortForwardHandlerConfig](api.WithPortForwardStreamIdleTimeout(time.Second), api.WithPortForwardCreationTimeout(time.Minute))
	if want := (api.PortForwardHandlerConfig{StreamIdleTimeout: time.Second, StreamCreationTimeout: time.Minute}); forwards != want {
		t.Errorf("got %+v, want %+v", forwards, want)
	}
	runs := applied[api.ContainerExecHandlerConfig](api.WithExecStreamIdleTimeout(time.Second), api.WithExecStreamCreationTimeout(time.Minute))
	if want := (api.ContainerExecHandlerConfig{StreamIdleTimeout: time.Second, StreamCreationTimeout: time.Minute}); runs != want {
		t.Errorf("got %+v, want %+v", runs, want)
	}
}
