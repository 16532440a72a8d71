// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
)

func TestTypesAreServedForAsLongAsTheyExist(t *testing.T) {
	t.Parallel() // it waits for seconds
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	plugin := n.serve()

	both := tree("0", "1")
	both.AddDevice("nic", "eth0", healthy())
	plugin.Notify(both)
	n.sees(kubelet, gpu, "0", "1")
	n.sees(kubelet, "example.com/nic", "eth0")
	if got := n.files(n.plugins); !slices.Equal(got, []string{"example.com-gpu.sock", "example.com-nic.sock", "kubelet.sock"}) {
		t.Errorf("sockets: %v", got)
	}

	plugin.Notify(tree("1", "2"))
	n.sees(kubelet, gpu, "1", "2")
	if got := n.files(n.plugins); !slices.Equal(got, []string{"example.com-gpu.sock", "kubelet.sock"}) {
		t.Errorf("sockets after a type is gone: %v", got)
	}
	n.sees(kubelet, "example.com/nic")
	plugin.Notify(both)
	n.sees(kubelet, "example.com/nic", "eth0")

	sick := tree("0", "1")
	sick.AddDevice("gpu", "0", unhealthy())
	plugin.Notify(sick)
	if err := kubelet.WaitFor(n.ctx, gpu, func(devices map[string]*pluginapi.Device) bool {
		return devices["0"].GetHealth() == pluginapi.Unhealthy && devices["1"].GetHealth() == pluginapi.Healthy
	}); err != nil {
		t.Error(err)
	}
	plugin.Notify(tree())
	n.sees(kubelet, gpu)
	if got := kubelet.Refusals(); got != nil {
		t.Errorf("kubelet refused: %v", got)
	}
}

// A type that goes and comes back at once registers again with a kubelet that
// may still know its socket.
func TestTypeThatComesBackIsNotRefused(t *testing.T) {
	t.Parallel() // it waits for seconds
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{ForgetDelay: forgets})
	plugin := n.serve()
	for i := range 3 {
		plugin.Notify(generation(i))
		n.sees(kubelet, gpu, generationID(i))
		plugin.Notify(NewDeviceTree())
	}
	if got := kubelet.Refusals(); got != nil {
		t.Errorf("kubelet refused: %v", got)
	}
}

// Scanners keep a tree and change it.
func TestTreeMayBeChangedAfterwards(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	plugin := n.serve()
	mine := tree("0")
	plugin.Notify(mine)
	n.sees(kubelet, gpu, "0")
	mine.AddDevice("gpu", "1", healthy())
	mine.AddDevice("nic", "eth0", healthy())
	plugin.Notify(mine)
	n.sees(kubelet, gpu, "0", "1")
	n.sees(kubelet, "example.com/nic", "eth0")
}

func TestEqualTreeIsNotSentAgain(t *testing.T) {
	before := tree("0", "1")
	withNIC := tree("0", "1")
	withNIC.AddDevice("nic", "eth0", healthy())
	sick := tree("0", "1")
	sick.AddDevice("gpu", "1", unhealthy())
	for name, c := range map[string]struct {
		before, after           DeviceTree
		added, updated, removed []string
	}{
		"first":           {nil, before, []string{"gpu"}, nil, nil},
		"equal":           {before, tree("0", "1"), nil, nil, nil},
		"device added":    {before, tree("0", "1", "2"), nil, []string{"gpu"}, nil},
		"device removed":  {before, tree("0"), nil, []string{"gpu"}, nil},
		"device replaced": {before, tree("0", "2"), nil, []string{"gpu"}, nil},
		"device changed":  {before, sick, nil, []string{"gpu"}, nil},
		"type added":      {before, withNIC, []string{"nic"}, nil, nil},
		"type removed":    {withNIC, before, nil, nil, []string{"nic"}},
		"last device":     {before, tree(), nil, []string{"gpu"}, nil},
	} {
		added, updated, removed := difference(c.before, c.after)
		if !slices.Equal(added, c.added) || !slices.Equal(updated, c.updated) || !slices.Equal(removed, c.removed) {
			t.Errorf("%s: added %v, updated %v, removed %v", name, added, updated, removed)
		}
	}
}

type scannerFunc func(Notifier) error

func (f scannerFunc) Scan(n Notifier) error { return f(n) }

func TestScanEndsRun(t *testing.T) {
	broken := errors.New("the bus is off")
	for name, c := range map[string]struct {
		scan  scannerFunc
		wants []string // in the error; none for no error
	}{
		"error":    {func(Notifier) error { return broken }, []string{"scan for devices of example.com", "the bus is off"}},
		"panic":    {func(Notifier) error { panic("index out of reach") }, []string{"scan for devices of example.com", "panic: index out of reach", "run_test.go"}},
		"no error": {func(Notifier) error { return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			manager := NewManagerWithOptions(namespace, scannerFunc(func(notifier Notifier) error {
				kubelet := n.kubelet(fakekubelet.Options{})
				notifier.Notify(tree("0"))
				n.sees(kubelet, gpu, "0")
				return c.scan(notifier)
			}), Options{PluginDir: n.plugins, CDIDir: n.cdi})
			err := manager.RunWithContext(n.ctx)
			if (err != nil) != (c.wants != nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if name == "error" && !errors.Is(err, broken) {
				t.Errorf("error %q does not wrap the scanner's", err)
			}
			if got := n.files(n.plugins); !slices.Equal(got, []string{"kubelet.sock"}) {
				t.Errorf("sockets that are left: %v", got)
			}
		})
	}
}

const failingDriver = "run-a-driver-whose-scan-panics"

func runFailingDriver() {
	fmt.Fprintln(os.Stderr, "started")
	NewManager(namespace, scannerFunc(func(Notifier) error { panic("index out of reach") })).Run()
	fmt.Fprintln(os.Stderr, "Run returned")
}

// Whoever runs a driver starts it again if it ends with a status.
func TestRunExitsWithStatusOne(t *testing.T) {
	output, err := exec.Command(os.Args[0], failingDriver).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the driver ended with %v, want status 1", err)
	}
	for _, want := range []string{"started", "scan for devices of example.com", "panic: index out of reach"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("output %q lacks %q", output, want)
		}
	}
	if strings.Contains(string(output), "Run returned") {
		t.Error("Run returned")
	}
}

func TestNotifyAfterTheEndDoesNothing(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	plugin.stop()
	plugin.Notify(tree("0"))
	if got := n.files(n.plugins); got != nil {
		t.Errorf("sockets: %v", got)
	}
}

func TestOccupiedSocketIsAnError(t *testing.T) {
	n := newNode(t)
	n.kubelet(fakekubelet.Options{})
	path := filepath.Join(n.plugins, "example.com-gpu.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	plugin := n.serve()
	plugin.Notify(tree("0"))
	if err := plugin.wait(); err == nil || !strings.Contains(err.Error(), "serve example.com/gpu: socket "+path+" is in use") {
		t.Errorf("error %v", err)
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Errorf("the other's socket: %v", err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	path := filepath.Join(n.plugins, "example.com-gpu.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	n.serve().Notify(tree("0"))
	n.sees(kubelet, gpu, "0")
}

func TestWhatCannotBeServedIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		devType string
		prepare func(n *node)
		want    string
	}{
		"type is no name":      {"gpu of mine", func(*node) {}, `serve example.com/gpu of mine: resource "example.com/gpu of mine": `},
		"type is a path":       {"../gpu", func(*node) {}, `resource "example.com/../gpu"`},
		"path is too long":     {strings.Repeat("x", 63), func(n *node) { n.plugins = longDir(n) }, "that of a socket must not have more than 107"},
		"file is in the way":   {"gpu", func(n *node) { write(n, filepath.Join(n.plugins, "example.com-gpu.sock")) }, "is not a socket"},
		"directory is missing": {"gpu", func(n *node) { n.plugins = filepath.Join(n.plugins, "missing") }, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			c.prepare(n)
			plugin := n.serve()
			bad := NewDeviceTree()
			bad.AddDevice(c.devType, "0", healthy())
			plugin.Notify(bad)
			if err := plugin.wait(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	for _, resource := range []string{"gpu", "kubernetes.io/gpu", "node.kubernetes.io/gpu", "requests.example.com/gpu", "example.com/"} {
		if validateResource(resource) == nil {
			t.Errorf("resource %q is valid", resource)
		}
	}
}

func longDir(n *node) string {
	dir := filepath.Join(n.plugins, strings.Repeat("d", 60))
	if err := os.Mkdir(dir, 0o755); err != nil {
		n.Fatal(err)
	}
	return dir
}

func write(n *node, path string) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		n.Fatal(err)
	}
}

func TestPluginWaitsForKubelet(t *testing.T) {
	n := newNode(t)
	plugin := n.serve()
	plugin.Notify(tree("0"))
	time.Sleep(100 * time.Millisecond) // some attempts
	n.sees(n.kubelet(fakekubelet.Options{}), gpu, "0")
}

func TestRefusalEndsRun(t *testing.T) {
	quick := retryDelays
	t.Cleanup(func() { retryDelays = quick })
	retryDelays.Duration = time.Millisecond
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{Refuse: "this kubelet is picky"})
	plugin := n.serve()
	plugin.Notify(tree("0"))
	if err := plugin.wait(); err == nil || !strings.Contains(err.Error(), "serve example.com/gpu: register with kubelet: ") || !strings.Contains(err.Error(), "this kubelet is picky") {
		t.Errorf("error %v", err)
	}
	if got := kubelet.Registrations(); got != maxRefusals {
		t.Errorf("%d registrations, want %d", got, maxRefusals)
	}
}
