// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/dray-project/dray/agent/internal/shortdir"
)

// scriptVariable holds what a process that is to be killed does: words such as
// prepare:a, release:a, except:a,b, and pause, which waits for a line of input.
const scriptVariable = "DRAY_CLAIMS_TEST_SCRIPT"

// killFolder is where such a process keeps its state.
const killFolder = "DRAY_CLAIMS_TEST_FOLDER"

// The claims of the pods a and b: one of each, and one that both share.
var (
	killClaims = map[string][]string{"a": {"of-a", "shared"}, "b": {"of-b", "shared"}}
	killNICs   = map[string][]string{"a": {"shared"}, "b": {"of-b", "shared"}}
	killAPI    = func() *fake.Clientset {
		return fake.NewClientset(
			claim("of-a", []string{gpus}, "a"), claim("of-b", []string{gpus, nics}, "b"), claim("shared", []string{gpus, nics}, "a", "b"))
	}
)

// playScript runs in the process that is killed. It prints each word once it has done it.
func playScript(script string) int {
	folder, ctx := os.Getenv(killFolder), context.Background()
	p, err := Start(ctx, Options{
		KubeClient: killAPI(), RegistrationDir: filepath.Join(folder, "r"), Checkpoint: filepath.Join(folder, "claims"), Recorder: record.NewFakeRecorder(1000),
	})
	input := bufio.NewReader(os.Stdin)
	for _, word := range strings.Fields(script) {
		verb, names, _ := strings.Cut(word, ":")
		if err == nil {
			switch verb {
			case "pause":
				_, err = input.ReadString('\n')
			case "prepare":
				err = p.Await(ctx, pod(names, killClaims[names]...))
			case "release":
				err = p.awaitDrivers(ctx, func() error { return p.Release(ctx, types.UID(names)) })
			case "except":
				active := strings.Split(names, ",")
				err = p.awaitDrivers(ctx, func() error {
					return p.ReleaseExcept(ctx, func(uid types.UID) bool { return slices.Contains(active, string(uid)) })
				})
			}
		}
		if err != nil {
			fmt.Println("failed:", err)
			return 1
		}
		fmt.Println(word)
	}
	_, _ = input.ReadString('\n') // until it is killed, or told to end
	p.Stop()
	return 0
}

// awaitDrivers does f as soon as both drivers are registered.
func (p *Preparer) awaitDrivers(ctx context.Context, f func() error) error {
	for {
		registered := p.plugins.registered()
		_, noGPU := p.plugins.client(gpus)
		_, noNIC := p.plugins.client(nics)
		if noGPU == nil && noNIC == nil {
			return f()
		}
		select {
		case <-registered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// victim is a process that plays a script.
type victim struct {
	command *exec.Cmd
	input   io.Writer
	lines   *bufio.Scanner
	kill    func()
}

func startVictim(t *testing.T, folder, script string) *victim {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), scriptVariable+"="+script, killFolder+"="+folder)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close() })
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return &victim{command, input, bufio.NewScanner(output), sync.OnceFunc(func() { _ = command.Process.Kill() })}
}

// until reads what the process has done, up to a word, or to its death.
func (v *victim) until(t *testing.T, word string) {
	t.Helper()
	for v.lines.Scan() {
		if strings.HasPrefix(v.lines.Text(), "failed") {
			t.Errorf("the process: %s", v.lines.Text())
		}
		if v.lines.Text() == word {
			return
		}
	}
}

// wait waits until the process is dead.
func (v *victim) wait() {
	for v.lines.Scan() { // so that it is not held up
	}
	_ = v.command.Wait()
}

// TestKill kills the process with SIGKILL at each call of a driver, before it and after
// it took effect, and when all is done. The next process is told that one of the pods is
// gone. Afterwards, exactly the claims of the other are prepared.
func TestKill(t *testing.T) {
	const script = "prepare:a prepare:b release:a prepare:a release:b"
	type point struct{ number, at string } // of the call, or the last word of the script
	var points []point
	for number := range countCalls(t, script) {
		points = append(points, point{fmt.Sprint(number), "before"}, point{fmt.Sprint(number), "after"})
	}
	points = append(points, point{"release:b", "done"})
	for _, point := range points {
		for _, survivor := range []string{"a", "b"} {
			t.Run(point.number+" "+point.at+", "+survivor+" survives", func(t *testing.T) {
				t.Parallel()
				k := newKillNode(t)
				started := make(chan struct{})
				var first *victim
				k.arm(point.number, point.at, func() { <-started; first.kill() })
				first = startVictim(t, k.folder, script)
				close(started)
				first.until(t, point.number)
				first.kill()
				first.wait()
				k.arm("", "", nil)

				second := startVictim(t, k.folder, fmt.Sprintf("except:%[1]s prepare:%[1]s pause release:%[1]s", survivor))
				second.until(t, "prepare:"+survivor)
				same(t, "prepared GPUs", k.gpu.Holds(), killClaims[survivor]...)
				same(t, "prepared NICs", k.nic.Holds(), killNICs[survivor]...)
				if _, err := fmt.Fprintln(second.input); err != nil {
					t.Fatal(err)
				}
				second.until(t, "release:"+survivor)
				same(t, "prepared at the end", slices.Concat(k.gpu.Holds(), k.nic.Holds()))
				second.kill()
				second.wait()
			})
		}
	}
}

// killNode is a node whose drivers survive the process.
type killNode struct {
	folder   string
	gpu, nic *driver

	mutex sync.Mutex
	calls int
	// kill is called when the call of this number comes to this point.
	number, at string
	kill       func()
}

func newKillNode(t *testing.T) *killNode {
	t.Helper()
	folder := shortdir.New(t)
	k := &killNode{folder: folder}
	registry := filepath.Join(folder, "r")
	if err := os.Mkdir(registry, 0o750); err != nil {
		t.Fatal(err)
	}
	k.gpu = startDriver(t, registry, gpus, func(d *driver) { d.During = k.during })
	k.nic = startDriver(t, registry, nics, func(d *driver) { d.During = k.during })
	return k
}

func (k *killNode) arm(number, at string, kill func()) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.number, k.at, k.kill = number, at, kill
}

// during counts calls. The process is single-minded: there is one call at a time.
func (k *killNode) during(_, at string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if fmt.Sprint(k.calls) == k.number && at == k.at {
		k.kill()
	}
	if at == "after" {
		k.calls++
	}
}

// countCalls plays a script to its end.
func countCalls(t *testing.T, script string) int {
	t.Helper()
	k := newKillNode(t)
	all := startVictim(t, k.folder, script)
	words := strings.Fields(script)
	all.until(t, words[len(words)-1])
	all.kill()
	all.wait()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.calls
}
