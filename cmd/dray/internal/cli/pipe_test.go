// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// In a pipe each line is complete: nothing is folded, and no cell is left out because it repeats the one
// above.
func TestPipe(t *testing.T) {
	atRepository(t)
	t.Setenv("COLUMNS", "")
	output, _ := standardOutput(strings.Fields("dray allocate -f examples/prioritized-fallback --no-headers")...)
	for _, want := range []string{
		"llm/serve-1  a100-1  gpu/good    a100-1/gpu-0\n", "llm/serve-1  a100-1  gpu/good    a100-1/gpu-1\n",
		"1 node (l4-1): request gpu accepts one of these: gpu/best needs 1 device; 0 of 6 that reach the node can serve it (6 not of class h100); gpu/good",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("want %q in:\n%s", want, output)
		}
	}
	output, _ = standardOutput(strings.Fields("dray devices -f examples/mig-partitions")...)
	if lines := strings.Split(strings.TrimSpace(output), "\n"); len(lines) != 27 || len(strings.Fields(lines[1])) != len(strings.Fields(lines[0])) {
		t.Errorf("want a header and a line with as many fields for each of 26 devices:\n%s", output)
	}
}

// COLUMNS says how wide lines may be, wherever they go. A single word is not cut, such as a link.
func TestColumns(t *testing.T) {
	atRepository(t)
	for _, width := range []int{60, 120} {
		t.Setenv("COLUMNS", strconv.Itoa(width))
		output, _ := standardOutput(strings.Fields("dray explain pretrain-0 -n training -f examples/fleet-200")...)
		longest := 0
		for line := range strings.SplitSeq(output, "\n") {
			if len(strings.Fields(line)) > 1 {
				longest = max(longest, len([]rune(line)))
			}
		}
		if longest > width || longest < width-20 {
			t.Errorf("COLUMNS=%d: the longest line has %d columns", width, longest)
		}
	}
}

// Entries of a folder that are no files are skipped with a warning. Nothing waits for a named pipe.
func TestFolderWithOddFiles(t *testing.T) {
	folder := t.TempDir()
	node := []byte("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
	if err := os.WriteFile(filepath.Join(folder, "node.txt"), node, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, create := range map[string]func(string) error{
		"pipe.yaml":     func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"dangling.yaml": func(path string) error { return os.Symlink("nowhere", path) },
		"linked.yaml":   func(path string) error { return os.Symlink("node.txt", path) },
		"loop.yaml":     func(path string) error { return os.Symlink(".", path) },
	} {
		if err := create(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan string, 1)
	go func() {
		output, status := runStatus("", "dray", "devices", "-v", "-f", folder)
		if status != cli.ExitOK {
			output += "failed"
		}
		done <- output
	}()
	select {
	case output := <-done:
		for _, want := range []string{
			"pipe.yaml: skipped: not a regular file", "dangling.yaml: skipped: no such file or directory", "loop.yaml: skipped: a link to a folder", "read: 1 Node,",
		} {
			if !strings.Contains(output, want) {
				t.Errorf("want %q in:\n%s", want, output)
			}
		}
		if strings.HasSuffix(output, "failed") {
			t.Errorf("the command failed:\n%s", output)
		}
	case <-time.After(progressDelay):
		t.Fatal("the command waits for somebody to write to the named pipe")
	}
}

// -k builds a kustomization, and reads other files besides.
func TestKustomize(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"kustomization.yaml": "namespace: staging\nresources: [claim.yaml]\n",
		"claim.yaml":         "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	output := run("", "dray", "allocate", "-k", folder, "-f", "testdata/cluster.yaml")
	if want := "claim staging/c  gpu-a"; !strings.Contains(output, want) {
		t.Errorf("want %q in:\n%s", want, output)
	}
}

// -w prints again when the input has changed, and not before. Input that cannot be read for a
// while is reported, once. The exit status is that of the last look.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	write := func(content string) {
		// The command must not read half a file.
		if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
			t.Error(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Error(err)
		}
	}
	slice := func(device string) string { return sliceHead + "  devices: [{name: " + device + "}]\n" }
	const half = "error: %s: document 1 (line 1): apiVersion: required\n"
	write(slice("first"))
	await, end := watch(t, path)
	await("first")
	write(slice("second"))
	await("second")
	write("kind: Half")
	await(fmt.Sprintf(half, path))
	write(slice("third"))
	await("third")
	seen, status := end()
	if status != cli.ExitOK {
		t.Errorf("exit status %d after an interrupt", status)
	}
	if strings.Count(seen, "first") != 1 {
		t.Errorf("what did not change is printed again: %q", seen)
	}

	await, end = watch(t, path)
	await("third")
	write("kind: Half")
	await(fmt.Sprintf(half, path))
	if seen, status := end(); status != cli.ExitError || strings.Count(seen, "error:") != 1 {
		t.Errorf("the last look failed: exit status %d after an interrupt, and %q", status, seen)
	}
}

// watch starts dray devices -w. Await waits until it has printed a text, end interrupts it.
func watch(t *testing.T, path string) (await func(text string), end func() (seen string, status int)) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*progressDelay)
	t.Cleanup(cancel)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	status := make(chan int, 1)
	go func() {
		status <- cli.Main(ctx, []string{"dray", "devices", "-w", "--no-headers", "-f", path}, cli.Streams{In: strings.NewReader(""), Out: writer, Err: writer})
		_ = writer.Close() // the reader then ends
	}()
	var seen strings.Builder
	await = func(text string) {
		t.Helper()
		buffer := make([]byte, 4096)
		for !strings.Contains(seen.String(), text) {
			n, err := reader.Read(buffer)
			seen.Write(buffer[:n])
			if err != nil {
				t.Fatalf("want %q, got %q and %v", text, seen.String(), err)
			}
		}
	}
	end = func() (string, int) {
		t.Helper()
		cancel()
		rest, err := io.ReadAll(reader)
		if err != nil {
			t.Error(err)
		}
		return seen.String() + string(rest), <-status
	}
	return await, end
}

// --timeout ends a command, with the reason.
func TestTimeout(t *testing.T) {
	atRepository(t)
	output, status := runStatus("", "dray", "allocate", "--timeout=1ns", "-f", "examples/fleet-200")
	if status != cli.ExitError || !strings.Contains(output, "error: --timeout: 1ns have passed") {
		t.Errorf("exit status %d:\n%s", status, output)
	}
}

// It ends selectors that are within the API's limits, but take long over many devices: with 32 attributes each, 33,000
// comparisons for each of 2,048 devices and 16 selectors. That takes most of a minute, where the timeout is a second.
func TestTimeoutOfSlowSelector(t *testing.T) {
	var selectors []string
	for n := range 16 {
		const all = `device.attributes["gpu.example.com"].all(%s, `
		expression := fmt.Sprintf(all+all+all+`a != b || c != "x%d")))`, "a", "b", "c", n)
		selectors = append(selectors, "{cel: {expression: '"+expression+"'}}")
	}
	var manifest strings.Builder
	manifest.WriteString("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n---\n" + claimHead + ", selectors: [" + strings.Join(selectors, ", ") + "]}}]}}\n")
	for n := range 16 {
		fmt.Fprintf(&manifest, "---\napiVersion: v1\nkind: Node\nmetadata: {name: n%d}\n---\n%s  devices:\n", n, strings.NewReplacer("name: s}", fmt.Sprintf("name: s%d}", n), "n1", fmt.Sprintf("n%d", n)).Replace(sliceHead))
		for i := range 128 {
			fmt.Fprintf(&manifest, "  - {name: gpu-%d, attributes: {", i)
			for k := range 31 {
				fmt.Fprintf(&manifest, "a%d: {string: v%d-%d-%d}, ", k, n, i, k)
			}
			manifest.WriteString("last: {bool: true}}}\n")
		}
	}
	for _, command := range []string{"dray allocate", "dray explain claim/c"} {
		begin := time.Now()
		output, status := runStatus(manifest.String(), append(strings.Fields(command), "--timeout=1s", "-f", "-")...)
		if status != cli.ExitError || !strings.Contains(output, "error: --timeout: 1s have passed") {
			t.Errorf("%s: exit status %d:\n%.500s", command, status, output)
		}
		// A coarse bound: a busy machine needs a few seconds. TestCancellationInterruptsExpressions of package allocator needs no clock.
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: ended after %s only", command, took)
		}
	}
}

// With rights for one namespace only, there is an answer, and it says what is missing.
func TestLiveNamespaceOnly(t *testing.T) {
	atRepository(t)
	server, kubeconfig := serve(t, "examples/prioritized-fallback")
	server.refuse = paths["Pod"]
	server.objects["/api/v1/namespaces/llm/pods"] = server.objects[paths["Pod"]]
	output := run("", "dray", "explain", "serve-4", "--kubeconfig", kubeconfig, "--context", "test")
	for _, want := range []string{"warning: cluster: list pods: not permitted in all namespaces", "Pod llm/serve-4 is not placed"} {
		if !strings.Contains(output, want) {
			t.Errorf("want %q in:\n%s", want, output)
		}
	}
}

// The namespace of the context is read from a cluster; -A reads all.
func TestLiveSelection(t *testing.T) {
	atRepository(t)
	_, kubeconfig := serve(t, "examples/prioritized-fallback") // whose pods are in llm
	for flag, want := range map[string]string{
		"--context=test":   "4 of 5 pods placed",
		"-A":               "4 of 5 pods placed",
		"-n=default":       "Nothing that is pending is selected: -n, -A, -l and --field-selector leave out 5\npods and claims.\n",
		"--no-headers=0":   "4 of 5 pods placed",
		"--as=someone":     "4 of 5 pods placed",
		"--token=a.secret": "4 of 5 pods placed",
	} {
		output, status := runStatus("", "dray", "allocate", flag, "--kubeconfig", kubeconfig, "--context", "test")
		if status != cli.ExitNotPlaced || !strings.Contains(output, want) {
			t.Errorf("%s: exit status %d, want %q in:\n%s", flag, status, want, output)
		}
	}
	if output := run("", "dray", "explain", "--kubeconfig", kubeconfig, "--context", "test", "-n", "default"); !strings.HasPrefix(output, "Nothing that is pending is selected:") {
		t.Errorf("explain in another namespace:\n%s", output)
	}
}

// A page is headed by the context that it was read with, if there is one.
func TestViewNamesTheCluster(t *testing.T) {
	atRepository(t)
	_, kubeconfig := serve(t, "examples/single-gpu")
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for flag, want := range map[string]string{"--kubeconfig=" + kubeconfig: "cluster test", "--server=" + config.Clusters["test"].Server: "cluster"} {
		page := filepath.Join(t.TempDir(), "page.html")
		arguments := []string{"dray", "view", "--output", page, flag}
		if want == "cluster test" {
			arguments = append(arguments, "--context=test")
		}
		if output, status := runStatus("", arguments...); status != cli.ExitOK {
			t.Fatalf("exit status %d:\n%s", status, output)
		}
		if content, err := os.ReadFile(page); err != nil || !bytes.Contains(content, []byte(`"source":"`+want+`"`)) {
			t.Errorf("%s: error %v, or no source %q in the page", flag, err, want)
		}
	}
}

// Pages of the manual are written for each command, the same each time and by everybody.
func TestManualPages(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, folder := range []string{first, second} {
		t.Setenv("HOME", folder)
		if output, status := runStatus("", "dray", "man", folder); status != cli.ExitOK {
			t.Fatalf("exit status %d:\n%s", status, output)
		}
	}
	for _, name := range []string{"dray.1", "dray-allocate.1", "dray-explain.1", "dray-devices.1"} {
		a, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs from one time to the next, error %v", name, err)
		}
		if !bytes.Contains(a, []byte(".TH")) {
			t.Errorf("%s is no manual page", name)
		}
	}
}
