// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
)

// patience is for machines that have other things to do.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	leakcheck.Main(m,
		// The logging of component-base flushes for as long as the process lives.
		goleak.IgnoreAnyFunction("k8s.io/component-base/logs.InitLogs.func1"),
		// Idle connections of http.Get.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// execute runs a command line.
func execute(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	command := newCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(io.Discard)
	command.SetArgs(arguments)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func TestScan(t *testing.T) {
	const file = "../../examples/node.yaml"
	text, err := execute(t, "scan", "--simulate", file, "--node-name", "node-1")
	if err != nil || !strings.Contains(text, "gpu.example.com   gpu-7-half-1   -      0000:17:00.0   pci0000:03   1                1   healthy") {
		t.Errorf("error %v, printed\n%s", err, text)
	}
	text, err = execute(t, "scan", "--simulate", file, "--node-name", "node-1", "-o", "yaml")
	var list resourceapi.ResourceSliceList
	if err != nil || yaml.UnmarshalStrict([]byte(text), &list) != nil {
		t.Fatalf("error %v, printed\n%s", err, text)
	}
	devices := 0
	for _, slice := range list.Items {
		devices += len(slice.Spec.Devices)
		if *slice.Spec.NodeName != "node-1" || slice.Kind != "ResourceSlice" {
			t.Errorf("slice %s is %v", slice.Name, slice.Spec)
		}
	}
	if devices != 28 || len(list.Items) != 3 {
		t.Errorf("%d devices in %d slices", devices, len(list.Items))
	}
}

func TestFlags(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for arguments, want := range map[string]string{
		"scan":                                                  "at least one of the flags in the group [simulate sysfs] is required",
		"scan --sysfs --node-name n":                            "[sysfs driver]",
		"scan --simulate x --sysfs --driver d":                  "none of the others can be",
		"scan --simulate none --node-name n":                    "--simulate: open none: no such file",
		"scan --simulate x":                                     "the name of the node is required",
		"scan --simulate x --node-name Node_1":                  `--node-name: "Node_1": a lowercase RFC 1123`,
		"scan --simulate x --node-name n -o json":               `--output: "json": must be "table" or "yaml"`,
		"scan --sysfs=none --driver d --node-name n":            "scan: ",
		"simulate --qps 0":                                      "--qps: 0: must be more than 0",
		"simulate --script none":                                "--script: ",
		"simulate --kubeconfig none":                            "--kubeconfig: ",
		"simulate":                                              "--kubeconfig is missing, and this is no pod: ",
		"run --simulate ../../examples/node.yaml --node-name n": "--kubeconfig is missing, and this is no pod: ",
		"run --simulate ../../examples/node.yaml --node-name n --kubeconfig none":                 "--kubeconfig: ",
		"run --simulate ../../examples/node.yaml --node-name n --dra=false --device-plugin=false": "nothing to serve",
		"run --simulate ../../examples/node.yaml --node-name n --run-pods":                        "needs --dra and --device-plugin=false",
	} {
		if _, err := execute(t, strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", arguments, err, want)
		}
	}
}

// TestDefaults: what opens the machine to others, or gives pods more rights, has to be asked for.
func TestDefaults(t *testing.T) {
	flags := newRunCommand().Flags()
	for name, want := range map[string]string{
		"listen": "127.0.0.1:9464", "run-pods": "false", "pods-may-be-root": "false", "taint-node": "true", "client-ca-file": "",
	} {
		if flag := flags.Lookup(name); flag == nil || flag.DefValue != want {
			t.Errorf("--%s: %v, want the default %q", name, flag, want)
		}
	}
}

// rig is a running agent.
type rig struct {
	client *fake.Clientset
	flags  *runFlags
	agent  *agent
	source *stubSource
	cancel context.CancelFunc
	done   chan error
}

// stubSource reports what a test sends.
type stubSource struct {
	reports chan *inventory.Inventory
	fail    chan error
}

func (s *stubSource) Run(ctx context.Context, report func(*inventory.Inventory)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.fail:
			return err
		case in := <-s.reports:
			report(in)
		}
	}
}

func startRig(t *testing.T, change func(*runFlags), objects ...runtime.Object) *rig {
	t.Helper()
	r := &rig{
		client: fakecluster.NewClient(objects...),
		flags:  &runFlags{sourceFlags: sourceFlags{nodeName: "node-1"}, kubeletDir: shortdir.New(t), cdiDir: t.TempDir(), dra: true, plugin: true},
		source: &stubSource{make(chan *inventory.Inventory), make(chan error)},
		done:   make(chan error, 1),
	}
	if change != nil {
		change(r.flags)
	}
	var err error
	if r.agent, err = newAgent(r.flags, r.client, r.source); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	t.Cleanup(r.cancel)
	go func() { r.done <- r.agent.run(ctx) }()
	return r
}

// report has the source report.
func (r *rig) report(t *testing.T, in *inventory.Inventory) {
	t.Helper()
	select {
	case r.source.reports <- in:
	case err := <-r.done:
		t.Fatalf("the agent ended with %v", err)
	}
}

func (r *rig) stop(t *testing.T) error {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		t.Fatal("the agent does not end")
		return nil
	}
}

var gpu0 = inventory.ID{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}

func oneGPU(unhealthy bool) *inventory.Inventory {
	return &inventory.Inventory{Devices: []inventory.Device{{ID: gpu0, Type: "gpu", Health: inventory.Health{Unhealthy: unhealthy}}}}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestRun(t *testing.T) {
	r := startRig(t, func(f *runFlags) { f.listen, f.withdraw = "127.0.0.1:0", true })
	address := r.agent.status.Addr().String()
	fakecluster.Eventually(t, "health", func() bool { status, _ := get(t, "http://"+address+"/healthz"); return status == http.StatusOK })
	if status, text := get(t, "http://"+address+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "not known yet") {
		t.Errorf("ready: %d %s", status, text)
	}
	r.report(t, oneGPU(false))
	fakecluster.Eventually(t, "a device", func() bool { return slices.Equal(fakecluster.Published(t, r.client), []string{"gpu-0"}) })
	r.report(t, oneGPU(true))
	fakecluster.Eventually(t, "a taint", func() bool {
		return slices.Equal(fakecluster.Published(t, r.client), []string{"gpu-0 gpu.example.com/unhealthy"})
	})
	if status, text := get(t, "http://"+address+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "kubelet did not register driver gpu.example.com") {
		t.Errorf("ready: %d %s", status, text)
	}
	for _, want := range []string{
		`dray_agent_devices{driver="gpu.example.com",healthy="false"} 1`,
		`dray_agent_resourceslice_writes{driver="gpu.example.com",verb="update"} 1`,
	} {
		// A write is counted after it is stored.
		fakecluster.Eventually(t, want, func() bool { _, text := get(t, "http://"+address+"/metrics"); return strings.Contains(text, want+"\n") })
	}
	if err := r.stop(t); err != nil || len(fakecluster.Published(t, r.client)) > 0 {
		t.Errorf("ended with %v, left %q", err, fakecluster.Published(t, r.client))
	}
}

// TestPodsThatCannotBeServed: the agent ends if kubelet's API cannot be served.
func TestPodsThatCannotBeServed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing.pem")
	a := &agent{flags: &runFlags{sourceFlags: sourceFlags{nodeName: "n"}, tlsCert: missing, tlsKey: missing}, client: fakecluster.NewClient()}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	a.servePods(ctx, cancel, listener, nodePods{})
	a.running.Wait()
	if err := context.Cause(ctx); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error about %s", err, missing)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is left: %v", err)
	}
}
