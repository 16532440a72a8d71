package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
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
	for arguments, want := range map[string]string{
		"scan":                                       "at least one of the flags in the group [simulate sysfs] is required",
		"scan --sysfs --node-name n":                 "[sysfs driver]",
		"scan --simulate x --sysfs --driver d":       "none of the others can be",
		"scan --simulate none --node-name n":         "--simulate: open none: no such file",
		"scan --simulate x":                          "the name of the node is required",
		"scan --simulate x --node-name Node_1":       `--node-name: "Node_1": a lowercase RFC 1123`,
		"scan --simulate x --node-name n -o json":    `--output: "json": must be table or yaml`,
		"scan --sysfs=none --driver d --node-name n": "scan: ",
		"simulate --qps 0":                           "--qps: 0: must be more than 0",
		"simulate --script none":                     "--script: ",
		"simulate --kubeconfig none":                 "--kubeconfig: ",
		"run --simulate ../../examples/node.yaml --node-name n --kubeconfig none":                 "--kubeconfig: ",
		"run --simulate ../../examples/node.yaml --node-name n --dra=false --device-plugin=false": "nothing to serve",
		"run --simulate ../../examples/node.yaml --node-name n --run-pods":                        "needs --dra and --device-plugin=false",
	} {
		if _, err := execute(t, strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", arguments, err, want)
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
	if r.agent, err = newAgent(r.flags, r.client); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	t.Cleanup(r.cancel)
	go func() { r.done <- r.agent.run(ctx, r.source) }()
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

// TestReportOf asks the API server for the pods of this node only. If it does not answer,
// nothing is free.
func TestReportOf(t *testing.T) {
	wants := corev1.ResourceRequirements{Requests: corev1.ResourceList{"gpu.example.com/gpu": resource.MustParse("1")}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{
		NodeName: "node-1", InitContainers: []corev1.Container{{Name: "first", Resources: wants}},
	}}
	client := fake.NewClientset(pod)
	a := &agent{flags: &runFlags{sourceFlags: sourceFlags{nodeName: "node-1"}}, client: client}
	asked := time.Now()
	report, err := a.reportOf(t.Context(), &podresources.Answer{Asked: asked, InUse: map[string][]string{"x": {"0"}}})
	if err != nil || !report.Asked.Equal(asked) || len(report.InUse["x"]) != 1 || report.Free("gpu.example.com/gpu") || !report.Free("gpu.example.com/other") {
		t.Errorf("report %v, error %v", report, err)
	}
	if selector := client.Actions()[0].(clienttesting.ListAction).GetListRestrictions().Fields.String(); selector != "spec.nodeName=node-1" {
		t.Errorf("field selector %q", selector)
	}
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("pods are forbidden")
	})
	report, err = a.reportOf(t.Context(), &podresources.Answer{InUse: map[string][]string{"x": {"0"}}})
	if err == nil || !strings.Contains(err.Error(), "pods of the node: pods are forbidden") || report.Free != nil || len(report.InUse["x"]) != 1 {
		t.Errorf("report %v, error %v", report, err)
	}
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
	r.report(t, oneGPU(false))
	if err := r.agent.ledger.Acquire(oneGPU(false), inventory.FrontDevicePlugin, "pod", []inventory.ID{gpu0}); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "a taint of a device in use", func() bool {
		return slices.Equal(fakecluster.Published(t, r.client), []string{"gpu-0 gpu.example.com/in-use-by-device-plugin"})
	})
	if err := r.stop(t); err != nil || len(fakecluster.Published(t, r.client)) > 0 {
		t.Errorf("ended with %v, left %q", err, fakecluster.Published(t, r.client))
	}
}

func TestSourceLost(t *testing.T) {
	r := startRig(t, nil)
	r.report(t, oneGPU(false))
	fakecluster.Eventually(t, "a device", func() bool { return slices.Equal(fakecluster.Published(t, r.client), []string{"gpu-0"}) })
	r.source.fail <- errors.New("cable pulled")
	fakecluster.Eventually(t, "a taint", func() bool {
		return slices.Equal(fakecluster.Published(t, r.client), []string{"gpu-0 gpu.example.com/source-lost"})
	})
	if err := r.stop(t); err == nil || !strings.Contains(err.Error(), "cannot be watched any more: cable pulled") || len(fakecluster.Published(t, r.client)) != 1 {
		t.Errorf("ended with %v, left %q", err, fakecluster.Published(t, r.client))
	}
}

// TestDamagedLedger: what claims hold is known before anything is served.
func TestDamagedLedger(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim-uid"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: gpu0.Driver, Pool: gpu0.Pool, Device: gpu0.Device}},
	}}
	r := startRig(t, func(f *runFlags) {
		if err := os.MkdirAll(filepath.Dir(f.checkpoint()), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.checkpoint(), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, claim)
	r.report(t, oneGPU(false))
	fakecluster.Eventually(t, "a device", func() bool { return len(fakecluster.Published(t, r.client)) == 1 })
	if got, want := r.agent.ledger.Holds(), []inventory.Hold{{Device: gpu0, Front: inventory.FrontDRA, User: "claim-uid"}}; !slices.Equal(got, want) {
		t.Errorf("holds %v, want %v", got, want)
	}
	if err := r.stop(t); err != nil {
		t.Error(err)
	}
}

// TestSocketInUse: the agent ends with what went wrong in the background.
func TestSocketInUse(t *testing.T) {
	r := startRig(t, func(f *runFlags) {
		if err := os.WriteFile(filepath.Join(f.kubeletDir, "device-plugins"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	r.report(t, oneGPU(false))
	select {
	case err := <-r.done:
		if err == nil || !strings.Contains(err.Error(), "device plugin of gpu.example.com") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the agent does not end")
	}
}
