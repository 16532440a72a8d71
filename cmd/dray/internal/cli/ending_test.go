// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Output that nobody gets is an error, also if something is not placed as well.
func TestOutputFails(t *testing.T) {
	atRepository(t)
	for _, command := range []string{
		"dray --help", "dray help explain", "dray version", "dray options", "dray completion bash", "dray simulate",
		"dray allocate -f examples/single-gpu", "dray allocate -f examples/mig-partitions", "dray allocate -f examples/single-gpu -o name",
		"dray explain -f examples/mig-partitions", "dray explain claim/batch -f examples/mig-partitions -o json",
		"dray devices -f examples/single-gpu", "dray devices -f examples/single-gpu -o custom-columns=A:.name",
		"dray simulate fits -f examples/single-gpu", "dray convert -f examples/devmgmt-memory --lossy",
	} {
		var told bytes.Buffer
		status := cli.Main(t.Context(), strings.Fields(command), cli.Streams{In: strings.NewReader(""), Out: fullDisk{}, Err: &told})
		if status != cli.ExitError || !strings.Contains(told.String(), "error: no space left on device\n") {
			t.Errorf("%s: exit status %d, and %q on standard error", command, status, told.String())
		}
	}
}

// A command ends when it is interrupted or its time is up, also while it waits for input.
func TestEndsWhileItReads(t *testing.T) {
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	for _, test := range []struct {
		ctx    context.Context
		flags  string
		status int
		want   string
	}{
		{t.Context(), "--timeout=20ms", cli.ExitError, "error: --timeout: 20ms have passed\n"},
		{interrupted, "", cli.ExitInterrupted, "error: interrupt signal received\n"},
	} {
		for _, command := range []string{"dray allocate", "dray explain", "dray devices", "dray simulate fits", "dray convert"} {
			endless, writer := io.Pipe()
			arguments := append(strings.Fields(command+" "+test.flags), "-f", "-")
			var told bytes.Buffer
			status := make(chan int, 1)
			go func() {
				status <- cli.Main(test.ctx, arguments, cli.Streams{In: endless, Out: io.Discard, Err: &told})
			}()
			select {
			case got := <-status:
				if got != test.status || told.String() != test.want {
					t.Errorf("%s: exit status %d, and %q on standard error", arguments, got, told.String())
				}
			case <-time.After(progressDelay):
				t.Fatalf("%s: the command waits for its input", arguments)
			}
			if err := writer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// warned is a standard error that interrupts the command when it says something.
type warned struct {
	bytes.Buffer
	interrupt context.CancelCauseFunc
}

func (w *warned) Write(text []byte) (int, error) {
	w.interrupt(errors.New("interrupt signal received"))
	return w.Buffer.Write(text)
}

// A command that is interrupted after it has read its input prints no answer, and says that it was. Here it is
// interrupted when it warns of an object.
func TestEndsWhileItWorks(t *testing.T) {
	objects := gpuClass + nodeWith("m", "{name: g0}") + claimOf("c", "requests: [{name: r, exactly: {deviceClassName: gpu}}]", "") +
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ml}, spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimName: c}]}}\n" +
		"---\n{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: v, namespace: ml}, spec: {template: {spec: {domain: {}, resourceClaims: [{name: gpu, resourceClaimName: c}]}}}}\n"
	for _, command := range []string{
		"dray allocate", "dray allocate -o json", "dray explain", "dray explain -o json", "dray simulate fits", "dray simulate plan", "dray simulate repack --goal nodes", "dray simulate drain m", "dray view -o -",
	} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		told := &warned{interrupt: interrupt}
		var out bytes.Buffer
		status := cli.Main(ctx, append(strings.Fields(command), "-f", "-"), cli.Streams{In: strings.NewReader(objects), Out: &out, Err: told})
		if status != cli.ExitInterrupted || out.Len() > 0 || !strings.HasSuffix(told.String(), "error: interrupt signal received\n") {
			t.Errorf("%s: exit status %d, and %q on standard error, output:\n%s", command, status, told.String(), out.String())
		}
		interrupt(nil)
	}
}
