// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
)

func TestKubeletRestartWithOpenStream(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *fakekubelet.Kubelet){
		"killed": func(_ *testing.T, kubelet *fakekubelet.Kubelet) { kubelet.Kill() },
		"stopped": func(t *testing.T, kubelet *fakekubelet.Kubelet) {
			if err := kubelet.Stop(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			first := n.kubelet(fakekubelet.Options{})
			plugin := n.serve()
			plugin.Notify(generation(0))
			n.sees(first, gpu, "0")
			end(t, first)
			plugin.Notify(generation(1))
			second := n.kubelet(fakekubelet.Options{})
			n.sees(second, gpu, "1")
			plugin.Notify(generation(2))
			n.sees(second, gpu, "2")
			if got := second.Registrations(); got != 1 {
				t.Errorf("%d registrations with the new kubelet", got)
			}
		})
	}
}

// The plugin does not need its socket to be removed to notice.
func TestKubeletThatKeepsSockets(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	plugin.Notify(generation(0))
	for i := range 5 {
		kubelet := n.kubelet(fakekubelet.Options{KeepSockets: i > 0})
		n.sees(kubelet, gpu, generationID(i))
		plugin.Notify(generation(i + 1))
		kubelet.Kill()
	}
}

// A kubelet that is replaced within the moment, with its socket where it was.
func TestKubeletThatIsReplacedAtOnce(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	plugin.Notify(generation(0))
	for i := range 50 {
		kubelet := n.kubelet(fakekubelet.Options{})
		n.sees(kubelet, gpu, generationID(i))
		plugin.Notify(generation(i + 1))
		kubelet.Kill()
	}
}

// forgets is how long a kubelet takes to forget a plugin. It is so much less than
// forgetDelay that a busy machine does not make it more.
const forgets = forgetDelay / 50

// An administrator removes the plugin's socket. Kubelet is the same as before
// and would refuse a plugin that it still knows.
func TestRemovedSocketIsMadeAgain(t *testing.T) {
	t.Parallel() // it waits for seconds
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{ForgetDelay: forgets})
	plugin := n.serve()
	plugin.Notify(generation(0))
	n.sees(kubelet, gpu, "0")
	for i := range 2 {
		if err := os.Remove(filepath.Join(n.plugins, "example.com-gpu.sock")); err != nil {
			t.Fatal(err)
		}
		n.registers(kubelet, i+2)
		plugin.Notify(generation(i + 1))
		n.sees(kubelet, gpu, generationID(i+1))
	}
	if got := kubelet.Refusals(); got != nil {
		t.Errorf("kubelet refused: %v", got)
	}
}

// A kubelet that only lost the stream does not come back for it.
func TestDroppedStreamLeadsToANewRegistration(t *testing.T) {
	t.Parallel() // it waits for seconds
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{ForgetDelay: forgets})
	plugin := n.serve()
	plugin.Notify(generation(0))
	n.sees(kubelet, gpu, "0")
	kubelet.Disconnect(gpu)
	n.registers(kubelet, 2)
	plugin.Notify(generation(1))
	n.sees(kubelet, gpu, "1")
	if got := kubelet.Refusals(); got != nil {
		t.Errorf("kubelet refused: %v", got)
	}
}

// registers waits until kubelet has had a number of registrations.
func (n *node) registers(kubelet *fakekubelet.Kubelet, count int) {
	n.Helper()
	for deadline := time.Now().Add(patience); kubelet.Registrations() < count; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			n.Fatalf("%d registrations, want %d", kubelet.Registrations(), count)
		}
	}
}

// Any number of updates with nobody to take them.
func TestUpdatesWithoutStreamNeitherBlockNorPileUp(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	const updates = 10_000
	for i := range updates {
		plugin.Notify(generation(i))
	}
	kubelet := n.kubelet(fakekubelet.Options{})
	n.sees(kubelet, gpu, generationID(updates-1))
	if got := kubelet.Lists(gpu); got != 1 {
		t.Errorf("kubelet got %d lists, want the latest alone", got)
	}
}

// A kubelet that does not read is no reason to wait either. What waits for it is the
// latest state, beside the few lists that the connection had taken already: with 500
// devices a list fills its window soon.
func TestSlowKubeletGetsTheLatestState(t *testing.T) {
	n := newNode(t)
	readOn := make(chan struct{})
	kubelet := n.kubelet(fakekubelet.Options{ReadOn: readOn})
	plugin := n.serve()
	plugin.Notify(generation(0))
	n.sees(kubelet, gpu, "0")
	const updates = 1_000
	others := make([]string, 500)
	for i := range others {
		others[i] = fmt.Sprintf("other-%03d", i)
	}
	for i := range updates {
		plugin.Notify(tree(append(others, generationID(i))...))
	}
	close(readOn)
	n.sees(kubelet, gpu, append([]string{generationID(updates - 1)}, others...)...)
	if got := kubelet.Lists(gpu); got > updates/10 {
		t.Errorf("kubelet got %d lists of %d updates", got, updates)
	}
}

// restarts is how often kubelets die in TestKubeletDiesAtEveryStep.
const restarts = 500

// Each kubelet dies at another step, while devices change all the time. The one
// after it gets nothing that is older than what was known when it started.
func TestKubeletDiesAtEveryStep(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	changing := &changes{notify: plugin.Notify}
	changing.start()
	defer changing.stop()

	died := make(map[fakekubelet.Step]int)
	start := time.Now()
	for i := range restarts {
		step := fakekubelet.Steps[i%len(fakekubelet.Steps)]
		known := changing.now()
		kubelet := n.kubelet(fakekubelet.Options{DieAt: step})
		if step == fakekubelet.Allocating {
			n.seesAtLeast(kubelet, known)
			_, _ = kubelet.Allocate(n.ctx, gpu, 1) // which it does not survive
		}
		select {
		case <-kubelet.Dead():
			died[step]++
		case <-plugin.ended:
			t.Fatalf("restart %d: the Manager ended: %v", i, plugin.err)
		case <-time.After(patience):
			t.Fatalf("restart %d: the kubelet does not come to the step %q", i, step)
		}
		if step == fakekubelet.Listed || step == fakekubelet.Updated {
			n.assertAtLeast(kubelet, known)
		}
		if refusals := kubelet.Refusals(); refusals != nil {
			t.Fatalf("restart %d: kubelet refused: %v", i, refusals)
		}
	}
	took := time.Since(start)

	changing.stop()
	last := n.kubelet(fakekubelet.Options{})
	n.sees(last, gpu, generationID(changing.now()))
	for _, step := range fakekubelet.Steps {
		if died[step] < restarts/len(fakekubelet.Steps) {
			t.Errorf("%d kubelets died at the step %q", died[step], step)
		}
	}
	t.Logf("%d restarts and %d updates in %s", restarts, changing.now(), took.Round(time.Millisecond))
}

// changes reports one generation after the other.
type changes struct {
	notify func(DeviceTree)
	mu     sync.Mutex
	latest int
	done   chan struct{}
	group  sync.WaitGroup
	once   sync.Once
}

func (c *changes) start() {
	c.done = make(chan struct{})
	c.notify(generation(0))
	c.group.Go(func() {
		ticker := time.NewTicker(500 * time.Microsecond)
		defer ticker.Stop()
		for i := 1; ; i++ {
			select {
			case <-ticker.C:
			case <-c.done:
				return
			}
			c.notify(generation(i))
			c.mu.Lock()
			c.latest = i
			c.mu.Unlock()
		}
	})
}

func (c *changes) stop() {
	c.once.Do(func() { close(c.done) })
	c.group.Wait()
}

// now is a generation that Notify has returned from.
func (c *changes) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

func atLeast(devices map[string]*pluginapi.Device, wanted int) bool {
	for id := range devices {
		if got, err := strconv.Atoi(id); err == nil && got >= wanted {
			return true
		}
	}
	return false
}

func (n *node) seesAtLeast(kubelet *fakekubelet.Kubelet, wanted int) {
	n.Helper()
	if err := kubelet.WaitFor(n.ctx, gpu, func(devices map[string]*pluginapi.Device) bool { return atLeast(devices, wanted) }); err != nil {
		n.Fatal(err)
	}
}

func (n *node) assertAtLeast(kubelet *fakekubelet.Kubelet, wanted int) {
	n.Helper()
	if devices := kubelet.Devices(gpu); !atLeast(devices, wanted) {
		n.Errorf("kubelet got %v after generation %d was reported", devices, wanted)
	}
}
