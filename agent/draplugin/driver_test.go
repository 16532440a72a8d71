// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/ptr"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/internal/sockets"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/resourceslice"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const (
	driverName = "gpu.example.com"
	nodeName   = fakecluster.NodeName
)

// node is a node's directories and API server, with the connections that kubelet has.
type node struct {
	dir    string
	client *fake.Clientset
	ledger *inventory.Ledger
	driver *Driver
}

func newNode(t *testing.T, claims ...runtime.Object) *node {
	t.Helper()
	n := &node{dir: shortdir.New(t), client: fakecluster.NewClient(claims...)}
	n.start(t)
	return n
}

func (n *node) start(t *testing.T, changes ...func(*Options)) {
	t.Helper()
	var err error
	if n.ledger, err = inventory.OpenLedger(filepath.Join(n.dir, "ledger")); err != nil {
		t.Fatal(err)
	}
	for _, front := range inventory.Fronts {
		if err := n.ledger.Rebuild(front, nil); err != nil {
			t.Fatal(err)
		}
	}
	options := Options{
		DriverName: driverName, NodeName: nodeName, KubeClient: n.client, Ledger: n.ledger,
		RegistrarDir: filepath.Join(n.dir, "r"), PluginDataDir: filepath.Join(n.dir, "p"), CDIDir: filepath.Join(n.dir, "cdi"),
		OnError: func(_ context.Context, err error, msg string) { t.Errorf("%s: %v", msg, err) },
	}
	for _, change := range changes {
		change(&options)
	}
	if n.driver, err = Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.driver.Stop)
}

func (n *node) dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(n.dir, socket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// prepare asks as kubelet does.
func (n *node) prepare(t *testing.T, uid string) *dra.NodePrepareResourceResponse {
	t.Helper()
	answer, err := dra.NewDRAPluginClient(n.dial(t, "p/dra.sock")).NodePrepareResources(t.Context(), &dra.NodePrepareResourcesRequest{
		Claims: []*dra.Claim{{Namespace: "ns", Name: uid, Uid: uid}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Claims[uid]
}

// unprepare is for the claim that is named one.
func (n *node) unprepare(t *testing.T) string {
	const uid = "one"
	t.Helper()
	answer, err := dra.NewDRAPluginClient(n.dial(t, "p/dra.sock")).NodeUnprepareResources(t.Context(), &dra.NodeUnprepareResourcesRequest{
		Claims: []*dra.Claim{{Namespace: "ns", Name: uid, Uid: uid}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Claims[uid].Error
}

// cdiDevices are what the runtime finds: names of devices and their variables.
func (n *node) cdiDevices(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.dir, "cdi", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		var spec cdispec.Spec
		if err := json.Unmarshal(content, &spec); err != nil {
			t.Fatal(err)
		}
		for _, device := range spec.Devices {
			out = append(out, spec.Kind+"="+device.Name+": "+strings.Join(device.ContainerEdits.Env, ","))
		}
	}
	return out
}

// claim is allocated the devices, one by each request.
func claim(uid string, devices ...string) *resourceapi.ResourceClaim {
	allocation := &resourceapi.AllocationResult{}
	for i, device := range devices {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "request-" + string(rune('a'+i)), Driver: driverName, Pool: nodeName, Device: device,
		})
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)},
		Status:     resourceapi.ResourceClaimStatus{Allocation: allocation},
	}
}

func devices(names ...string) *inventory.Inventory {
	out := &inventory.Inventory{}
	for _, name := range names {
		out.Devices = append(out.Devices, inventory.Device{
			ID:    inventory.ID{Driver: driverName, Pool: nodeName, Device: name},
			Edits: cdispec.ContainerEdits{Env: []string{"GPU=" + name}},
		})
	}
	return out
}

// TestSocketPathsAreTooLong: the error names the socket, in place of the kernel's "invalid
// argument".
func TestSocketPathsAreTooLong(t *testing.T) {
	dir, deep := shortdir.New(t), strings.Repeat("deep/", 20)
	for want, options := range map[string]Options{
		"start DRA driver gpu.example.com: socket " + filepath.Join(dir, deep, driverName+"-reg.sock") + ": the path has ": {RegistrarDir: filepath.Join(dir, deep), PluginDataDir: dir},
		"start DRA driver gpu.example.com: socket " + filepath.Join(dir, deep, "dra.sock") + ": the path has ":             {RegistrarDir: dir, PluginDataDir: filepath.Join(dir, deep)},
	} {
		options.DriverName, options.NodeName, options.KubeClient, options.CDIDir = driverName, nodeName, fakecluster.NewClient(), dir
		if driver, err := Start(t.Context(), options); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", driver, err, want)
		}
	}
}

// TestHandedOutByDevicePlugin: the device is tainted, and not prepared.
func TestHandedOutByDevicePlugin(t *testing.T) {
	admin := claim("admin", "gpu-0")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	n := newNode(t, claim("one", "gpu-0"), admin)
	n.ledger.OnChange(n.driver.LedgerChanged)
	in := devices("gpu-0", "gpu-1")
	n.driver.Update(in)
	if err := n.ledger.Acquire(in, inventory.FrontDevicePlugin, "pod", []inventory.ID{in.Devices[0].ID}); err != nil {
		t.Fatal(err)
	}
	if got := n.prepare(t, "one"); !strings.Contains(got.Error, "in use by device-plugin pod") {
		t.Errorf("prepared %v", got)
	}
	if got := n.prepare(t, "admin"); got.Error != "" {
		t.Errorf("admin access: %v", got)
	}
	fakecluster.Eventually(t, "a taint", func() bool {
		return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0 gpu.example.com/in-use-by-device-plugin", "gpu-1"})
	})
	if err := n.ledger.Release(inventory.FrontDevicePlugin, "pod"); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "no taint", func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0", "gpu-1"}) })
}

func TestPublish(t *testing.T) {
	n := newNode(t)
	n.driver.Update(devices("gpu-0"))
	fakecluster.Eventually(t, "a slice", func() bool { return n.driver.Stats().NumCreates == 1 })
	n.driver.SourceLost(errors.New("cable pulled"))
	fakecluster.Eventually(t, "a taint", func() bool {
		return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0 gpu.example.com/source-lost"})
	})
	n.driver.Update(devices("gpu-0"))
	fakecluster.Eventually(t, "no taint", func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0"}) })
	if err := n.driver.Withdraw(t.Context()); err != nil || n.driver.Stats().NumDeletes != 1 {
		t.Errorf("withdrawn: %v, %v", err, n.driver.Stats())
	}
}

// TestUnpublished: devices that the API server would refuse keep no other from being
// published, and are told once.
func TestUnpublished(t *testing.T) {
	n := newNode(t)
	var errs told
	n.driver.options.OnError = errs.add
	names := []string{"gpu-0"}
	for i := range maxReported + 2 {
		names = append(names, fmt.Sprint("GPU ", i))
	}
	n.driver.Update(devices(names...))
	fakecluster.Eventually(t, "one device", func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0"}) })
	n.driver.Update(devices(append(names, "gpu-1")...))
	fakecluster.Eventually(t, "two devices", func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0", "gpu-1"}) })
	n.driver.Update(devices(append(names, "gpu-2")...))
	fakecluster.Eventually(t, "another two devices", func() bool { return slices.Equal(fakecluster.Published(t, n.client), []string{"gpu-0", "gpu-2"}) })
	if count := errs.count("not published: "); count != maxReported || errs.count("2 more devices or values are not published") != 1 {
		t.Errorf("told %d times: %q", count, errs.errors)
	}
}

// TestRegistration: kubelet learns what the driver serves, and says that it took it.
func TestRegistration(t *testing.T) {
	n := newNode(t)
	client := registration.NewRegistrationClient(n.dial(t, "r/"+driverName+"-reg.sock"))
	answer, err := client.GetInfo(t.Context(), &registration.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Type != registration.DRAPlugin || answer.Name != driverName || answer.Endpoint != filepath.Join(n.dir, "p/dra.sock") ||
		!slices.Contains(answer.SupportedVersions, dra.DRAPluginService) || !slices.Contains(answer.SupportedVersions, health.DRAResourceHealthService) {
		t.Errorf("registers as %v", answer)
	}
	if n.driver.Registered() {
		t.Error("registered before kubelet said so")
	}
	if _, err := client.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true}); err != nil || !n.driver.Registered() {
		t.Errorf("not registered: %v", err)
	}
}

func TestHealth(t *testing.T) {
	n := newNode(t)
	stream, err := health.NewDRAResourceHealthClient(n.dial(t, "p/dra.sock")).NodeWatchResources(t.Context(), &health.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var last []health.HealthStatus
	// The driver repeats what has not changed from time to time.
	expect := func(want ...health.HealthStatus) {
		t.Helper()
		got := last
		for slices.Equal(got, last) {
			answer, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			for _, device := range answer.Devices {
				got = append(got, device.Health)
			}
		}
		if last = got; !slices.Equal(got, want) {
			t.Errorf("health %v, want %v", got, want)
		}
	}
	n.driver.Update(devices("gpu-0", "gpu-1"))
	expect(health.HealthStatus_HEALTHY, health.HealthStatus_HEALTHY)
	failed := devices("gpu-0", "gpu-1")
	failed.Devices[1].Health = inventory.Health{Unhealthy: true, Message: "\xff"} // gRPC sends no such text
	n.driver.Update(failed)
	expect(health.HealthStatus_HEALTHY, health.HealthStatus_UNHEALTHY)
	n.driver.SourceLost(errors.New("cable pulled"))
	expect(health.HealthStatus_UNKNOWN, health.HealthStatus_UNKNOWN)
}

// TestDefaults: kubelet's folders, and errors that are logged.
func TestDefaults(t *testing.T) {
	got := Options{DriverName: driverName}.withDefaults()
	if got.RegistrarDir != "/var/lib/kubelet/plugins_registry" || got.PluginDataDir != "/var/lib/kubelet/plugins/"+driverName || got.RepairDelay != resourceslice.DefaultSyncDelay || got.OnError == nil {
		t.Errorf("options %+v", got)
	}
	given := Options{DriverName: driverName, RegistrarDir: "/a", PluginDataDir: "/b", RepairDelay: 1, OnError: func(context.Context, error, string) {}}
	if got := given.withDefaults(); got.RegistrarDir != "/a" || got.PluginDataDir != "/b" || got.RepairDelay != 1 || got.OnError == nil {
		t.Errorf("options %+v", got)
	}
}

// TestHoldsOfClaims: a claim with a CDI file is prepared, and one that is allocated may be.
func TestHoldsOfClaims(t *testing.T) {
	elsewhere := claim("elsewhere", "gpu-0")
	elsewhere.Status.Allocation.Devices.Results[0].Pool = "node-2"
	pending := claim("pending")
	pending.Status.Allocation = nil
	admin := claim("admin", "gpu-2")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	in := devices("gpu-0", "gpu-1", "gpu-2", "gpu-2-half")
	n := newNode(t, claim("one", "gpu-0"), claim("deleted", "gpu-2-half"), admin)
	n.driver.Update(in)
	for _, uid := range []string{"one", "deleted", "admin"} {
		if got := n.prepare(t, uid); got.Error != "" {
			t.Fatal(got.Error)
		}
	}
	claims := []resourceapi.ResourceClaim{*claim("one", "gpu-0"), *claim("two", "gpu-1"), *elsewhere, *pending, *admin}
	got, err := HoldsOfClaims(in, driverName, filepath.Join(n.dir, "cdi"), claims)
	want := []inventory.Hold{
		{Device: in.Devices[0].ID, Front: inventory.FrontDRA, User: "one"},
		{Device: in.Devices[1].ID, Front: inventory.FrontDRA, User: "two", Assumed: true},
		{Device: in.Devices[3].ID, Front: inventory.FrontDRA, User: "deleted"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if other, err := HoldsOfClaims(in, "other.example.com", filepath.Join(n.dir, "cdi"), claims); err != nil || len(other) > 0 {
		t.Errorf("of another driver: got %v (%v), want none", other, err)
	}
	files, err := cdi.Open(filepath.Join(n.dir, "cdi"), driverName)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(files.Path("deleted"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Path("deleted"), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := HoldsOfClaims(in, driverName, filepath.Join(n.dir, "cdi"), claims); err == nil || !strings.Contains(err.Error(), "claim deleted") {
		t.Errorf("half a CDI file: %v, want an error that names the claim", err)
	}
	// A claim that was never prepared is not unprepared, either.
	if err := n.ledger.Update(func([]inventory.Hold) []inventory.Hold { return got }); err != nil {
		t.Fatal(err)
	}
	if err := DropUnallocated(in, driverName, n.ledger, claims); err != nil || len(n.ledger.Holds()) != 3 {
		t.Errorf("all are allocated: %v, holds %v", err, n.ledger.Holds())
	}
	if err := DropUnallocated(in, driverName, n.ledger, nil); err != nil || len(n.ledger.Holds()) != 2 {
		t.Errorf("none is allocated: %v, holds %v", err, n.ledger.Holds())
	}
}

// TestSockets: a second process does not take the sockets of the first, and the first notices when
// they are gone.
func TestSockets(t *testing.T) {
	n := newNode(t)
	if err := n.driver.Healthy(); err != nil {
		t.Error(err)
	}
	for _, socket := range []string{"p/dra.sock", "r/" + driverName + "-reg.sock"} {
		path := filepath.Join(n.dir, socket)
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		options := n.driver.options
		if strings.HasPrefix(socket, "r/") {
			options.PluginDataDir = filepath.Join(n.dir, "other")
		} else {
			options.RegistrarDir = filepath.Join(n.dir, "other")
		}
		var inUse *sockets.InUseError
		if second, err := Start(t.Context(), options); !errors.As(err, &inUse) || inUse.Path != path {
			t.Errorf("a second process: %v, %v", second, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("the socket of the first: %v", err)
		}
	}
	for _, socket := range []string{"p/dra.sock", "r/" + driverName + "-reg.sock"} {
		path := filepath.Join(n.dir, socket)
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := n.driver.Healthy(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s is gone, and health is %v", path, err)
		}
		if err := os.Rename(path+".moved", path); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.driver.Healthy(); err != nil {
		t.Error(err)
	}
}

// TestErrorsInTheBackground: a driver that is stopped before its sockets are served reports nothing.
// Other errors are reported.
func TestErrorsInTheBackground(t *testing.T) {
	var reported []string
	p := plugin{&Driver{options: Options{OnError: func(_ context.Context, err error, msg string) {
		reported = append(reported, msg+": "+err.Error())
	}}}}
	server := grpc.NewServer()
	server.Stop()
	path := filepath.Join(shortdir.New(t), "s")
	socket, err := sockets.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	p.HandleError(t.Context(), server.Serve(socket), "serving")
	p.HandleError(t.Context(), fmt.Errorf("accept: %w", fs.ErrClosed), "serving")
	if want := []string{"serving: accept: file already closed"}; !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}
