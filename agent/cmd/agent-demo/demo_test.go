// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dray-project/dray/agent/internal/demo"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const (
	binaries = "../../../bin"
	hardware = "../../examples/node.yaml"
)

// TestDemo runs all of it.
func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", shortdir.New(t)) // for sockets
	var out bytes.Buffer
	err := showing(binaries).run(t.Context(), &out)
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gpu.example.com  node-1  node-1  gpu-0         free ",
		"dray-scheduler has bound it to node-1, with gpu.example.com/node-1/gpu-0 and nic.example.com/node-1/nic-0.",
		`"EXAMPLE_GPU=gpu-0"`, `"EXAMPLE_NIC=nic-0"`,
		"taint gpu.example.com/unhealthy=DoubleBitEccError:NoSchedule", "memory=141Gi  gpu.example.com/unhealthy=DoubleBitEccError:NoSchedule\n",
		"no CDI file is left.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not printed", want)
		}
	}
}

// TestCancelled: nothing is left of a demo that is interrupted, and that is no failure.
func TestCancelled(t *testing.T) {
	t.Setenv("TMPDIR", shortdir.New(t)) // for sockets
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelling{cancel: cancel, at: "dray-agent runs"}
	err := showing(binaries).run(ctx, out)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// cancelling cancels a context when a text is written.
type cancelling struct {
	cancel context.CancelFunc
	at     string
}

func (c *cancelling) Write(text []byte) (int, error) {
	if strings.Contains(string(text), c.at) {
		c.cancel()
	}
	return len(text), nil
}

// TestErrors are found before anything is started.
func TestErrors(t *testing.T) {
	err := showing(t.TempDir()).run(t.Context(), &bytes.Buffer{})
	for _, want := range []string{"kube-apiserver", "dray-agent", "make build agent controlplane"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func showing(folder string) settings {
	return settings{Settings: demo.Settings{Binaries: folder}, hardware: hardware}
}
