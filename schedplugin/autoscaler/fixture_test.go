package autoscaler_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/autoscaler"
)

func TestMain(m *testing.M) {
	metrics.Register() // the framework counts
	os.Exit(m.Run())
}

// clusterObjects is what cluster-autoscaler calls of its snapshot.
type clusterObjects interface {
	fwk.SharedDRAManager
	AddClaims(claims []*resourceapi.ResourceClaim) error
	PodClaims(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error)
	RemovePodOwnedClaims(pod *corev1.Pod)
	ReservePodClaims(pod *corev1.Pod) error
	UnreservePodClaims(pod *corev1.Pod) error
	NodeResourceSlices(node string) ([]*resourceapi.ResourceSlice, bool)
	AddNodeResourceSlices(node string, slices []*resourceapi.ResourceSlice) error
	RemoveNodeResourceSlices(node string)
	Fork()
	Commit()
	Revert()
}

var (
	_ clusterObjects           = &autoscaler.Snapshot{}
	_ schedplugin.ClaimChanges = autoscaler.NewEmptySnapshot().ResourceClaims().(schedplugin.ClaimChanges)
)

// simulation is a cluster in the hands of an autoscaler: its methods call the framework and the
// snapshot in the order in which cluster-autoscaler does.
type simulation struct {
	name      string
	dra       clusterObjects
	framework framework.Framework
	nodes     []*corev1.Node
	pods      map[string][]*corev1.Pod // by node
	seenNodes map[*corev1.Node]seenNode
	before    []simulation
	lister    *lister
}

// lister has what the framework sees of nodes.
type lister struct{ *internalcache.Snapshot }

// newSimulation runs one plugin, of those that deal with claims.
func newSimulation(t testing.TB, name, plugin string, dra clusterObjects) *simulation {
	t.Helper()
	registry := plugins.NewInTreeRegistry()
	registry[schedplugin.Name] = schedplugin.New
	only := config.PluginSet{Enabled: []config.Plugin{{Name: plugin}}}
	profile := &config.KubeSchedulerProfile{SchedulerName: "simulation", Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		PreFilter: only, Filter: only, Reserve: only,
	}}
	if plugin == names.DynamicResources {
		args := &config.DynamicResourcesArgs{}
		configscheme.Scheme.Default(args)
		profile.PluginConfig = []config.PluginConfig{{Name: plugin, Args: args}}
	}
	s := &simulation{name: name, dra: dra, seenNodes: make(map[*corev1.Node]seenNode), pods: make(map[string][]*corev1.Pod), lister: &lister{internalcache.NewEmptySnapshot()}}
	ctx, cancel := context.WithCancel(t.Context())
	made, err := frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)),
		frameworkruntime.WithSnapshotSharedLister(s.lister),
		frameworkruntime.WithSharedDRAManager(dra),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); frameworkruntime.WaitForShutdown(made) })
	s.framework = made
	return s
}

// seen is a node as the framework sees it, the same as long as its pods are.
func (s *simulation) seen(node *corev1.Node) fwk.NodeInfo {
	pods := s.pods[node.Name]
	if known := s.seenNodes[node]; known.info == nil || !slices.Equal(known.pods, pods) {
		info := framework.NewNodeInfo(pods...)
		info.SetNode(node)
		s.seenNodes[node] = seenNode{info, pods}
	}
	return s.seenNodes[node].info
}

type seenNode struct {
	info fwk.NodeInfo
	pods []*corev1.Pod
}

func (s *simulation) addNode(node *corev1.Node, slices []*resourceapi.ResourceSlice) error {
	if err := s.dra.AddNodeResourceSlices(node.Name, slices); err != nil {
		return err
	}
	s.nodes = append(s.nodes[:len(s.nodes):len(s.nodes)], node)
	return nil
}

// removeNode removes a node and the pods that are on it.
func (s *simulation) removeNode(name string) {
	for _, pod := range s.pods[name] {
		s.dra.RemovePodOwnedClaims(pod)
	}
	delete(s.pods, name)
	s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(node *corev1.Node) bool { return node.Name == name })
	s.dra.RemoveNodeResourceSlices(name)
}

// scheduleAnywhere looks for the first node that has room, and schedules the pod there. It
// returns the name of the node, empty if there is none.
func (s *simulation) scheduleAnywhere(ctx context.Context, pod *corev1.Pod) (string, error) {
	return s.scheduleOn(ctx, pod, s.nodes)
}

// scheduleOn is scheduleAnywhere on some of the nodes.
func (s *simulation) scheduleOn(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (string, error) {
	state := fwk.CycleState(framework.NewCycleState())
	if _, status, _ := s.framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		if status.Code() == fwk.Error {
			return "", status.AsError()
		}
		return "", nil
	}
	for _, node := range nodes {
		status := s.framework.RunFilterPlugins(ctx, state, pod, s.seen(node))
		if status.Code() == fwk.Error {
			return "", status.AsError()
		}
		if status.IsSuccess() {
			return node.Name, s.schedule(ctx, pod, node)
		}
	}
	return "", nil
}

// schedule puts a pod on a node that has room.
func (s *simulation) schedule(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error {
	state := fwk.CycleState(framework.NewCycleState())
	if _, status, _ := s.framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return status.AsError()
	}
	if status := s.framework.RunFilterPlugins(ctx, state, pod, s.seen(node)); !status.IsSuccess() {
		return status.AsError()
	}
	if status := s.framework.RunReservePluginsReserve(ctx, state, pod, node.Name); !status.IsSuccess() {
		return status.AsError()
	}
	if err := s.dra.ReservePodClaims(pod); err != nil {
		return err
	}
	s.pods[node.Name] = append(s.pods[node.Name][:len(s.pods[node.Name]):len(s.pods[node.Name])], pod)
	return nil
}

// unschedule takes a pod off its node. It is pending again.
func (s *simulation) unschedule(pod *corev1.Pod, node string) error {
	s.pods[node] = slices.DeleteFunc(slices.Clone(s.pods[node]), func(other *corev1.Pod) bool { return other.UID == pod.UID })
	return s.dra.UnreservePodClaims(pod)
}

func (s *simulation) fork() {
	s.before = append(s.before, simulation{nodes: s.nodes, pods: maps.Clone(s.pods)})
	s.dra.Fork()
}

func (s *simulation) commit() {
	s.before = s.before[:len(s.before)-1]
	s.dra.Commit()
}

func (s *simulation) revert() {
	last := s.before[len(s.before)-1]
	s.nodes, s.pods, s.before = last.nodes, last.pods, s.before[:len(s.before)-1]
	s.dra.Revert()
}

// describe lists what claims hold and who uses them.
func describe(t testing.TB, dra fwk.SharedDRAManager) string {
	t.Helper()
	claims, err := dra.ResourceClaims().List()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, claim := range claims {
		line := claim.Name + ":"
		if claim.Status.Allocation != nil {
			for _, result := range claim.Status.Allocation.Devices.Results {
				line += fmt.Sprintf(" %s/%s", result.Pool, result.Device)
				if result.ShareID != nil {
					line += " (share)"
				}
			}
		}
		for _, by := range claim.Status.ReservedFor {
			line += " <" + by.Name
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("100"),
		}},
	}
}

const driver = "gpu.example.com"

// slicesOf are eight GPUs of two models on two NUMA nodes, and a disk that is shared.
func slicesOf(node string) []*resourceapi.ResourceSlice {
	gpus := newSlice(node, "gpus")
	for i := range 8 {
		gpus.Spec.Devices = append(gpus.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"kind": {StringValue: ptr.To("gpu")}, "model": {StringValue: ptr.To([]string{"large", "small"}[i%2])},
				"numa": {IntValue: ptr.To(int64(i / 4))}, "uuid": {StringValue: ptr.To(fmt.Sprint(node, "-", i))},
			},
		})
	}
	disks := newSlice(node, "disks")
	disks.Spec.Devices = []resourceapi.Device{{
		Name: "disk", AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: ptr.To("disk")}},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"size": {Value: resource.MustParse("10Gi")}},
	}}
	return []*resourceapi.ResourceSlice{gpus, disks}
}

func newSlice(node, kind string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + kind},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node + "-" + kind, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// network is a pool that all nodes reach.
func network() *resourceapi.ResourceSlice {
	slice := newSlice("", "network")
	slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
	for i := range 3 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprint("address-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: ptr.To("address")}},
		})
	}
	return slice
}

func classes() map[string]*resourceapi.DeviceClass {
	all := make(map[string]*resourceapi.DeviceClass)
	for _, kind := range []string{"gpu", "disk", "address"} {
		all[kind] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: kind}}
		all[kind].Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes[%q].kind == %q`, driver, kind),
		}}}
	}
	all["gpu"].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	return all
}

// request asks for devices of a class.
func request(class string, count int64) *resourceapi.ExactDeviceRequest {
	return &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
}

// newClaim asks for one thing. It belongs to the pod of the same name, if there is one.
func newClaim(name string, owner *corev1.Pod, asked *resourceapi.ExactDeviceRequest) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "devices", Exactly: asked}}}},
	}
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
	}
	return claim
}

// newPod refers to claims, those that were made from a template for it by its status.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
}

// refer has the pod use a claim.
func refer(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	if len(claim.OwnerReferences) == 0 {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Name})
		return
	}
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimTemplateName: ptr.To("template")})
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: claim.Name, ResourceClaimName: &claim.Name})
}
