// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// repository is the way from this folder to the top of the repository, from where
// READMEs say that commands are run.
const repository = "../../../.."

// run runs a command line at the top of the repository. The output ends with the
// exit status unless that is 0.
func run(stdin string, arguments ...string) string {
	out, status := runStatus(stdin, arguments...)
	if status != cli.ExitOK {
		out += fmt.Sprintf("[exit status %d]\n", status)
	}
	return out
}

func runStatus(stdin string, arguments ...string) (string, int) {
	var out bytes.Buffer
	status := cli.Main(context.Background(), arguments, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &out})
	return out.String(), status
}

// standardOutput is what a pipe or a file would get.
func standardOutput(arguments ...string) (string, int) {
	var out bytes.Buffer
	status := cli.Main(context.Background(), arguments, cli.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard})
	return out.String(), status
}

func TestMain(m *testing.M) {
	// A person's settings must not decide what the tests see.
	for _, name := range []string{"KUBECONFIG", "NO_COLOR"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	// READMEs show what a terminal shows.
	if err := os.Setenv("COLUMNS", "80"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// atRepository makes paths mean what they mean in READMEs.
func atRepository(t *testing.T) {
	t.Helper()
	t.Chdir(repository)
}

// fits complains about lines that a terminal of 80 columns would fold.
func fits(t *testing.T, output string) {
	t.Helper()
	for line := range strings.SplitSeq(output, "\n") {
		if width := runewidth.StringWidth(line); width > 80 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("line is %d columns wide: %s", width, line)
		}
	}
}

// interrupting is where output goes of somebody who has seen enough after the first explanation.
type interrupting struct {
	strings.Builder
	interrupt func()
}

// Write implements io.Writer.
func (i *interrupting) Write(content []byte) (int, error) {
	n, err := i.Builder.Write(content)
	if strings.Contains(i.String(), "is not placed") {
		i.interrupt()
	}
	return n, err
}

// Results are printed as they are found, not all at the end.
func TestExplainsAtOnce(t *testing.T) {
	manifest := "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: g}}\n"
	for i := range 5 {
		manifest += fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c%d}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: g, count: %d}}]}}}\n", i, i+1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &interrupting{interrupt: cancel}
	status := cli.Main(ctx, []string{"dray", "explain", "-f", "-"}, cli.Streams{In: strings.NewReader(manifest), Out: out, Err: io.Discard})
	if status != cli.ExitInterrupted || !strings.HasPrefix(out.String(), "ResourceClaim default/c0 is not placed") || strings.Contains(out.String(), "c1") {
		t.Errorf("status %d, printed:\n%s", status, out)
	}
}
