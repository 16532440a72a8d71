// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletplugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	metadatav1alpha1 "k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	upstreamslice "k8s.io/dynamic-resource-allocation/resourceslice"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/resourceslice"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const driverName = "gpu.example.com"

// driver prepares every claim without devices, and keeps what goes wrong.
type driver struct {
	mutex  sync.Mutex
	errors []error
	told   chan struct{} // gets one for each error
}

func newDriver() *driver { return &driver{told: make(chan struct{}, 100)} }

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]PrepareResult, error) {
	out := make(map[types.UID]PrepareResult)
	for _, claim := range claims {
		out[claim.UID] = PrepareResult{}
	}
	return out, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []NamespacedObject) (map[types.UID]error, error) {
	out := make(map[types.UID]error)
	for _, claim := range claims {
		out[claim.UID] = nil
	}
	return out, nil
}

func (d *driver) HandleError(_ context.Context, err error, _ string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.errors = append(d.errors, err)
	d.told <- struct{}{}
}

var report = DeviceHealthReport{Devices: []DeviceHealth{
	{PoolName: "p", DeviceName: "well", Health: HealthStatusHealthy},
	{PoolName: "p", DeviceName: "ill", Health: HealthStatusUnhealthy, Message: "too hot", LastUpdated: time.Unix(1700000000, 0), HealthCheckTimeout: time.Minute},
}}

// watching is a driver for Kubernetes 1.37.
type watching struct{ *driver }

func (watching) WatchHealthStatus(ctx context.Context, reports chan<- DeviceHealthReport) error {
	select {
	case <-ctx.Done():
	case reports <- report:
		<-ctx.Done()
	}
	return nil
}

// older is a driver for Kubernetes 1.36: it serves v1alpha1 itself.
type older struct {
	*driver
	healthv1alpha1.UnimplementedDRAResourceHealthServer
}

func (older) NodeWatchResources(_ *healthv1alpha1.NodeWatchResourcesRequest, stream healthv1alpha1.DRAResourceHealth_NodeWatchResourcesServer) error {
	device := func(name string) *healthv1alpha1.DeviceIdentifier {
		return &healthv1alpha1.DeviceIdentifier{PoolName: "p", DeviceName: name}
	}
	err := stream.Send(&healthv1alpha1.NodeWatchResourcesResponse{Devices: []*healthv1alpha1.DeviceHealth{
		{Device: device("well"), Health: healthv1alpha1.HealthStatus_HEALTHY},
		{Device: device("ill"), Health: healthv1alpha1.HealthStatus_UNHEALTHY, Message: "too hot", LastUpdatedTime: 1700000000, HealthCheckTimeoutSeconds: 60},
	}})
	if err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// unimplemented embeds the service of 1.36, and serves nothing of it.
type unimplemented struct {
	*driver
	healthv1alpha1.UnimplementedDRAResourceHealthServer
}

// start starts a driver in a folder, which it returns.
func start(t *testing.T, client *fake.Clientset, plugin DRAPlugin, more ...Option) (*Helper, string) {
	t.Helper()
	dir := shortdir.New(t)
	helper, err := Start(t.Context(), plugin, append([]Option{
		DriverName(driverName), NodeName(fakecluster.NodeName), KubeClient(client),
		RegistrarDirectoryPath(dir), PluginDataDirectoryPath(dir),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(helper.Stop)
	return helper, dir
}

func dial(t *testing.T, dir, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(dir, socket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func pool(devices ...string) resourceslice.DriverResources {
	var slice resourceslice.Slice
	for _, name := range devices {
		slice.Devices = append(slice.Devices, resourceapi.Device{Name: name})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{fakecluster.NodeName: {Slices: []resourceslice.Slice{slice}}}}
}

// expect waits until these devices are published.
func expect(t *testing.T, client *fake.Clientset, devices ...string) {
	t.Helper()
	fakecluster.Eventually(t, strings.Join(devices, " ")+" published", func() bool {
		return slices.Equal(fakecluster.Published(t, client), devices)
	})
}

func TestPublishResources(t *testing.T) {
	client := fakecluster.NewClient()
	plugin := newDriver()
	helper, _ := start(t, client, plugin)
	for _, devices := range [][]string{{"gpu-0"}, {"gpu-0", "gpu-1"}, {"gpu-1"}} {
		if err := helper.PublishResources(t.Context(), pool(devices...)); err != nil {
			t.Fatal(err)
		}
		expect(t, client, devices...)
	}
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d slices, error %v", len(list.Items), err)
	}
	owners := list.Items[0].OwnerReferences
	if spec := list.Items[0].Spec; spec.Driver != driverName || *spec.NodeName != fakecluster.NodeName || len(owners) != 1 || owners[0].UID != "node-uid" {
		t.Errorf("driver %s, node %v, owners %v", spec.Driver, spec.NodeName, owners)
	}

	helper.Stop()
	if err := helper.PublishResources(t.Context(), pool()); err == nil {
		t.Error("a stopped helper publishes")
	}
	late := pool("late")
	helper.published.Update(&late)
	time.Sleep(300 * time.Millisecond) // in which it would be written
	if got := fakecluster.Published(t, client); !slices.Equal(got, []string{"gpu-1"}) {
		t.Errorf("a stopped helper published %q", got)
	}
	if len(plugin.errors) > 0 {
		t.Errorf("errors: %v", plugin.errors)
	}
}

// TestStopWithoutAPIServer: a driver can be stopped while the API server refuses it the list of what is published, as with
// upstream's helper.
func TestStopWithoutAPIServer(t *testing.T) {
	client := fakecluster.NewClient()
	listed := make(chan struct{}, 100)
	client.PrependReactor("list", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		listed <- struct{}{}
		return true, nil, errors.New("forbidden")
	})
	helper, _ := start(t, client, newDriver())
	published := make(chan error)
	go func() { published <- helper.PublishResources(context.WithoutCancel(t.Context()), pool("gpu-0")) }()
	<-listed
	helper.Stop()
	if err := <-published; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestOwnerAndPool: with the UID of its node, the helper asks for no node, and with the name of its pool, it leaves
// slices of others alone.
func TestOwnerAndPool(t *testing.T) {
	theirs := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driverName, NodeName: ptr.To(fakecluster.NodeName), Pool: resourceapi.ResourcePool{Name: "theirs", ResourceSliceCount: 1},
	}}
	client := fakecluster.NewClient(theirs)
	helper, _ := start(t, client, newDriver(), NodeUID("given"), ReconcilePoolWithName(fakecluster.NodeName))
	for _, device := range []string{"gpu-0", "gpu-1"} { // the second one comes when all pools were looked at
		if err := helper.PublishResources(t.Context(), pool(device)); err != nil {
			t.Fatal(err)
		}
		expect(t, client, device)
	}
	helper.Stop()
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%d slices, error %v", len(list.Items), err)
	}
	for _, slice := range list.Items {
		if slice.Name != "theirs" && (len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != "given") {
			t.Errorf("owners %v", slice.OwnerReferences)
		}
	}
	for _, action := range client.Actions() {
		if action.Matches("get", "nodes") || action.Matches("delete", "resourceslices") {
			t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

// TestOnlyOnePool: with ReconcilePoolWithName, resources with a pool of another name are refused, and the driver is told.
func TestOnlyOnePool(t *testing.T) {
	plugin := newDriver()
	helper, _ := start(t, fakecluster.NewClient(), plugin, ReconcilePoolWithName(fakecluster.NodeName))
	resources := pool("gpu-0")
	resources.Pools["another"] = pool("elsewhere").Pools[fakecluster.NodeName]
	if err := helper.PublishResources(t.Context(), resources); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "an error", func() bool { return len(plugin.told) == 1 })
	if err := plugin.errors[0]; !strings.Contains(err.Error(), `pool "another"`) {
		t.Errorf("error %v", err)
	}
}

// TestUpstreamsTypes: resources that were built with upstream's package can be published.
func TestUpstreamsTypes(t *testing.T) {
	client := fakecluster.NewClient()
	helper, _ := start(t, client, newDriver())
	theirs := upstreamslice.DriverResources{Pools: pool("gpu-0").Pools}
	if err := helper.PublishResources(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	expect(t, client, "gpu-0")
}

func TestPublishWithoutNode(t *testing.T) {
	helper, _ := start(t, fakecluster.NewClient(), newDriver(), NodeName(""))
	if err := helper.PublishResources(t.Context(), pool()); err == nil || !strings.Contains(err.Error(), "NodeName") {
		t.Errorf("error %v", err)
	}
}

// TestPublishingErrors: whatever goes wrong, the driver may go on, and finds what happened by
// the type of either package.
func TestPublishingErrors(t *testing.T) {
	client := fakecluster.NewClient()
	client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		// As an API server without DRADeviceTaints: it drops them.
		slice := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceSlice)
		slice.Spec.Devices[0].Taints = nil
		return false, nil, nil
	})
	plugin := newDriver()
	helper, _ := start(t, client, plugin)
	resources := pool("gpu-0")
	resources.Pools[fakecluster.NodeName].Slices[0].Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	if err := helper.PublishResources(t.Context(), resources); err != nil {
		t.Fatal(err)
	}
	<-plugin.told
	plugin.mutex.Lock()
	defer plugin.mutex.Unlock()
	err := plugin.errors[0]
	var ours *resourceslice.DroppedFieldsError
	var theirs *upstreamslice.DroppedFieldsError
	if !errors.Is(err, ErrRecoverable) || !errors.As(err, &ours) || !errors.As(err, &theirs) {
		t.Fatalf("error %v (%T)", err, err)
	}
	if want := []string{"DRADeviceTaints"}; !slices.Equal(ours.DisabledFeatures(), want) || !slices.Equal(theirs.DisabledFeatures(), want) || theirs.PoolName != fakecluster.NodeName {
		t.Errorf("features %v and %v", ours.DisabledFeatures(), theirs.DisabledFeatures())
	}
}

// TestHealth asks each kind of driver as kubelet does, in both versions of the service.
func TestHealth(t *testing.T) {
	for name, test := range map[string]struct {
		plugin     DRAPlugin
		more       []Option
		announced  bool
		healthOfIt bool
	}{
		"1.37":               {plugin: watching{newDriver()}, announced: true, healthOfIt: true},
		"1.37, switched off": {plugin: watching{newDriver()}, more: []Option{HealthService(false)}},
		"1.36":               {plugin: older{driver: newDriver()}, announced: true, healthOfIt: true},
		"1.36, embedded":     {plugin: unimplemented{driver: newDriver()}, announced: true},
		"none":               {plugin: newDriver()},
		"none, switched on":  {plugin: newDriver(), more: []Option{HealthService(true)}, announced: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := start(t, fakecluster.NewClient(), test.plugin, test.more...)
			info, err := registration.NewRegistrationClient(dial(t, dir, driverName+"-reg.sock")).GetInfo(t.Context(), &registration.InfoRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(info.SupportedVersions, dra.DRAPluginService) || slices.Contains(info.SupportedVersions, healthv1.DRAResourceHealthService) != test.announced {
				t.Errorf("announced: %v", info.SupportedVersions)
			}
			connection := dial(t, dir, "dra.sock")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := healthv1.NewDRAResourceHealthClient(connection).NodeWatchResources(ctx, &healthv1.NodeWatchResourcesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := stream.Recv()
			if !test.healthOfIt {
				if status.Code(err) != codes.Unimplemented {
					t.Errorf("health %v, error %v", answer, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			well, ill := answer.GetDevices()[0], answer.GetDevices()[1]
			if well.Device.PoolName != "p" || well.Device.DeviceName != "well" || well.Health != healthv1.HealthStatus_HEALTHY || well.HealthCheckTimeoutSeconds != 0 {
				t.Errorf("well: %v", well)
			}
			if ill.Health != healthv1.HealthStatus_UNHEALTHY || ill.Message != "too hot" || ill.LastUpdatedTime != 1700000000 || ill.HealthCheckTimeoutSeconds != 60 {
				t.Errorf("ill: %v", ill)
			}
		})
	}
}

// TestServices: kubelet is told of the versions that are served, where the options say.
func TestServices(t *testing.T) {
	const v1, v1beta1 = dra.DRAPluginService, drav1beta1.DRAPluginService
	for name, test := range map[string]struct {
		option  Option
		socket  string
		want    []string
		missing string
	}{
		"by default":      {NodeV1(true), "-reg.sock", []string{v1, v1beta1}, ""},
		"without v1":      {NodeV1(false), "-reg.sock", []string{v1beta1}, ""},
		"without v1beta1": {NodeV1beta1(false), "-reg.sock", []string{v1}, ""},
		"not registered":  {RegistrationService(false), "", nil, driverName + "-reg.sock"},
		"its own name":    {RegistrarSocketFilename("own.sock"), "own.sock", []string{v1, v1beta1}, driverName + "-reg.sock"},
		"another socket":  {PluginSocket("other.sock"), "-reg.sock", []string{v1, v1beta1}, "dra.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := start(t, fakecluster.NewClient(), newDriver(), test.option)
			if _, err := os.Stat(filepath.Join(dir, test.missing)); test.missing != "" && !os.IsNotExist(err) {
				t.Errorf("%s is there: %v", test.missing, err)
			}
			if test.socket == "" {
				return
			}
			socket := test.socket
			if strings.HasPrefix(socket, "-") {
				socket = driverName + socket
			}
			info, err := registration.NewRegistrationClient(dial(t, dir, socket)).GetInfo(t.Context(), &registration.InfoRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(info.SupportedVersions, test.want) {
				t.Errorf("announced %q, want %q", info.SupportedVersions, test.want)
			}
		})
	}
}

// TestOlderStreamEnds: a driver for Kubernetes 1.36 does not wait for a kubelet that is gone.
func TestOlderStreamEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stream := &olderStream{ctx: ctx, reports: make(chan DeviceHealthReport)}
	if err := stream.Send(&healthv1alpha1.NodeWatchResourcesResponse{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestMetadata: the ways in which drivers of both versions of Kubernetes enable metadata.
func TestMetadata(t *testing.T) {
	alpha, beta := metadatav1alpha1.SchemeGroupVersion, metadatav1beta1.SchemeGroupVersion
	other := schema.GroupVersion{Group: alpha.Group, Version: "v9"}
	for name, test := range map[string]struct {
		given []Option
		want  []schema.GroupVersion
	}{
		"1.37":                  {[]Option{EnableDeviceMetadata(true, []schema.GroupVersion{beta})}, []schema.GroupVersion{beta}},
		"1.37, both":            {[]Option{EnableDeviceMetadata(true, []schema.GroupVersion{beta, alpha})}, []schema.GroupVersion{beta, alpha}},
		"1.36":                  {[]Option{EnableDeviceMetadata(true)}, []schema.GroupVersion{beta, alpha}},
		"1.36, versions":        {[]Option{MetadataVersions(alpha), EnableDeviceMetadata(true)}, []schema.GroupVersion{beta, alpha}},
		"1.36, the latest":      {[]Option{MetadataVersions(alpha, beta), EnableDeviceMetadata(true)}, []schema.GroupVersion{beta, alpha}},
		"1.36, another version": {[]Option{MetadataVersions(other), EnableDeviceMetadata(true)}, []schema.GroupVersion{beta, other}},
		"1.36, versions after":  {[]Option{EnableDeviceMetadata(true), MetadataVersions(alpha)}, []schema.GroupVersion{beta, alpha}},
		"1.37, without a value": {[]Option{EnableDeviceMetadata(true, nil)}, nil},
		"off":                   {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var o options
			for _, option := range test.given {
				if err := option(&o); err != nil {
					t.Fatal(err)
				}
			}
			if got := o.metadata.written(); !slices.Equal(got, test.want) {
				t.Errorf("versions %v, want %v", got, test.want)
			}
		})
	}

	// Upstream takes what comes out of it, and refuses what it refuses.
	dir := shortdir.New(t)
	start(t, fakecluster.NewClient(), newDriver(), EnableDeviceMetadata(true), CDIDirectory(dir))
	if _, err := Start(t.Context(), newDriver(), DriverName(driverName), KubeClient(fakecluster.NewClient()), EnableDeviceMetadata(true, nil)); err == nil {
		t.Error("metadata without versions is taken")
	}
}

func TestStartErrors(t *testing.T) {
	refused := errors.New("refused")
	for name, options := range map[string][]Option{
		"driver name": {KubeClient(fakecluster.NewClient())},
		"client":      {DriverName(driverName)},
		"refused":     {DriverName(driverName), KubeClient(fakecluster.NewClient()), func(*options) error { return refused }},
	} {
		helper, err := Start(t.Context(), newDriver(), options...)
		if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "Kubernetes ")) || helper != nil {
			t.Errorf("%s: %v", name, err)
		}
		helper.Stop() // of nothing
	}
}
