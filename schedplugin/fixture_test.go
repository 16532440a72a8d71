// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/dray-project/dray/internal/dev/fakeapi"
)

// everything has the features on that do not need a pod group.
var everything = feature.Features{
	EnableDRAAdminAccess:               true,
	EnableDRAConsumableCapacity:        true,
	EnableDRADeviceBindingConditions:   true,
	EnableDRADeviceTaints:              true,
	EnableDRAExtendedResource:          true,
	EnableDRAPartitionableDevices:      true,
	EnableDRAPrioritizedList:           true,
	EnableDRAResourceClaimDeviceStatus: true,
	EnableDRASchedulerFilterTimeout:    true,
	EnableDynamicResourceAllocation:    true,
}

// featuresWithout has everything off, and is not the zero value which stands for defaults.
func featuresWithout(t *testing.T) feature.Features {
	t.Helper()
	return feature.Features{EnablePodLevelResources: true}
}

// world is a cluster in memory with the plugin in a scheduler framework.
type world struct {
	t      testing.TB
	ctx    context.Context
	client *fake.Clientset
	dra    *dynamicresources.DefaultDRAManager
	plugin *Plugin
	nodes  []fwk.NodeInfo
	events chan string
	// activated are the names of pods that are to be tried again, in the order in which the plugin said so.
	activated []string
}

// Activate stands for the scheduling queue, which is not there.
func (w *world) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		w.activated = append(w.activated, pod.Name)
	}
}

// setting is what a world starts with.
type setting struct {
	features feature.Features // zero: everything
	args     string           // DrayArgs as YAML, empty for none
	objects  []runtime.Object
	groups   []*schedulingapi.PodGroup
	members  []*corev1.Pod // of the groups
	// nominated are pods by node, as the scheduling queue knows them.
	nominated nominations
}

func newWorld(t testing.TB, s setting) *world {
	t.Helper()
	if s.features == (feature.Features{}) {
		s.features = everything
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, client: fake.NewClientset(s.objects...), events: make(chan string, 100)}
	w.client.PrependReactor("*", "*", new(apiServer).react(w.client.Tracker()))
	factory := informers.NewSharedInformerFactory(w.client, 0)
	w.dra = newDRAManager(t, ctx, w.client, factory, s.features.EnableDRAExtendedResource)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(w.client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(&recorder{FakeRecorder: &events.FakeRecorder{Events: w.events}}),
		frameworkruntime.WithSharedDRAManager(w.dra),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewTestSnapshotWithPodGroups(nil, nodesIn(s.objects), s.groups)),
		frameworkruntime.WithPodNominator(s.nominated),
		frameworkruntime.WithPodActivator(w),
		frameworkruntime.WithPodGroupManager(groupStates(ctx, s)),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.plugin, err = NewWithFeatures(ctx, encoded(s.args), handle, s.features)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	fakeapi.AwaitWatches(t, w.client)
	t.Cleanup(func() { cancel(); factory.Shutdown(); frameworkruntime.WaitForShutdown(handle) })
	for _, node := range nodesIn(s.objects) {
		w.addNode(node)
	}
	w.settle()
	return w
}

func nodesIn(objects []runtime.Object) []*corev1.Node {
	var nodes []*corev1.Node
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// nominations stands for the scheduling queue, which is the only one to change them.
type nominations map[string][]fwk.PodInfo

func (n nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominations) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (n nominations) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}
func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo                { return n[node] }

func groupStates(ctx context.Context, s setting) fwk.PodGroupManager {
	states := internalcache.New(ctx, nil, true, false)
	for _, group := range s.groups {
		states.AddPodGroup(group)
	}
	for _, pod := range s.members {
		states.AddPodGroupMember(pod)
	}
	return states
}

// recorder is a FakeRecorder with what the plugin asks of one.
type recorder struct{ *events.FakeRecorder }

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// encoded are arguments as the scheduler hands them on.
func encoded(args string) runtime.Object {
	if args == "" {
		return nil
	}
	return &runtime.Unknown{Raw: []byte(args)}
}

func newDRAManager(t testing.TB, ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory, extended bool) *dynamicresources.DefaultDRAManager { //nolint:revive // t comes first in tests
	t.Helper()
	resources := factory.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true,
		SliceInformer:          resources.ResourceSlices(),
		TaintInformer:          resources.DeviceTaintRules(),
		KubeClient:             client,
	})
	if err != nil {
		t.Fatal(err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "resource claim", "", nil)
	dra := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	if index, ok := dra.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok && extended && index != nil {
		if _, err := resources.DeviceClasses().Informer().AddEventHandler(index); err != nil {
			t.Fatal(err)
		}
	}
	return dra
}

func (w *world) addNode(node *corev1.Node, pods ...*corev1.Pod) {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	w.nodes = append(w.nodes, info)
}

// settle waits until the scheduler and the plugin know what the API server has.
func (w *world) settle() {
	w.t.Helper()
	eventually(w.t, func() error {
		claims, err := w.client.ResourceV1().ResourceClaims("").List(w.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		known, err := w.dra.ResourceClaims().List()
		if err != nil {
			return err
		}
		if len(known) != len(claims.Items) {
			return fmt.Errorf("%d claims are known, want %d", len(known), len(claims.Items))
		}
		for i := range claims.Items {
			want := &claims.Items[i]
			got, err := w.dra.ResourceClaims().Get(want.Namespace, want.Name)
			if err != nil || got.ResourceVersion != want.ResourceVersion {
				return fmt.Errorf("claim %s is not known as it is: %w", want.Name, err)
			}
		}
		return errors.Join(w.slicesSettled(), w.classesSettled(), w.modelSettled(claims.Items))
	})
}

// modelSettled is about what the plugin knows of claims. It gets to know of them by events, later than
// those who ask the manager.
func (w *world) modelSettled(claims []resourceapi.ResourceClaim) error {
	if !w.plugin.enabled() {
		return nil
	}
	want := 0
	for i := range claims {
		if claims[i].Status.Allocation != nil || w.dra.ResourceClaims().GetPendingAllocation(claims[i].UID) != nil {
			want++
		}
	}
	view, err := w.plugin.model.Observe()
	if err == nil && view.Claims != want {
		err = fmt.Errorf("%d claims are known to hold devices, want %d", view.Claims, want)
	}
	return err
}

func (w *world) slicesSettled() error {
	slices, err := w.client.ResourceV1().ResourceSlices().List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	known, err := w.dra.ResourceSlices().ListWithDeviceTaintRules()
	if err == nil && len(known) != len(slices.Items) {
		err = fmt.Errorf("%d slices are known, want %d", len(known), len(slices.Items))
	}
	return err
}

// classesSettled is about extended resources, which have an index of their own.
func (w *world) classesSettled() error {
	if !w.plugin.features.EnableDRAExtendedResource {
		return nil
	}
	classes, err := w.client.ResourceV1().DeviceClasses().List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range classes.Items {
		resource := classes.Items[i].Spec.ExtendedResourceName
		if resource != nil && w.dra.DeviceClassResolver().GetDeviceClass(corev1.ResourceName(*resource)) == nil {
			return fmt.Errorf("the class for resource %s is not known", *resource)
		}
	}
	return nil
}

// apiServer adds to a fake client what the plugin relies on: generated names and UIDs,
// resource versions, and conflicts.
type apiServer struct {
	mu sync.Mutex
	n  int
}

func (a *apiServer) react(objects clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.n++
		switch action := action.(type) {
		case clienttesting.CreateActionImpl:
			object, err := meta.Accessor(action.Object)
			if err != nil {
				return true, nil, err
			}
			if object.GetName() == "" {
				object.SetName(object.GetGenerateName() + strconv.Itoa(a.n))
			}
			if object.GetUID() == "" {
				object.SetUID(types.UID("uid-" + strconv.Itoa(a.n)))
			}
			object.SetResourceVersion(strconv.Itoa(a.n))
		case clienttesting.UpdateActionImpl:
			object, err := meta.Accessor(action.Object)
			if err != nil {
				return true, nil, err
			}
			stored, err := objects.Get(action.GetResource(), action.GetNamespace(), object.GetName())
			if err != nil {
				return true, nil, err
			}
			if known, err := meta.Accessor(stored); err != nil || known.GetResourceVersion() != object.GetResourceVersion() {
				return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), object.GetName(), err)
			}
			object.SetResourceVersion(strconv.Itoa(a.n))
		}
		return false, nil, nil
	}
}

// attempt is one scheduling cycle of a pod.
type attempt struct {
	*world
	pod   *corev1.Pod
	state fwk.CycleState
}

func (w *world) attempt(pod *corev1.Pod) *attempt {
	return &attempt{world: w, pod: pod, state: framework.NewCycleState()}
}

func (a *attempt) preFilter() *fwk.Status {
	_, status := a.plugin.PreFilter(a.ctx, a.state, a.pod, a.nodes)
	return status
}

func (a *attempt) filter(node int) *fwk.Status {
	return a.plugin.Filter(a.ctx, a.state, a.pod, a.nodes[node])
}

// place runs a pod through to the end on the first node that suits it. It returns the name
// of the node, or why there is none.
func (a *attempt) place() (string, *fwk.Status) {
	a.t.Helper()
	node, status := a.reserve()
	if !status.IsSuccess() {
		return "", status
	}
	return node, a.plugin.PreBind(a.ctx, a.state, a.pod, node)
}

func (a *attempt) reserve() (string, *fwk.Status) {
	a.t.Helper()
	status := a.preFilter()
	if !status.IsSuccess() {
		return "", status
	}
	for i, info := range a.nodes {
		if status = a.filter(i); status.IsSuccess() {
			return info.Node().Name, a.plugin.Reserve(a.ctx, a.state, a.pod, info.Node().Name)
		}
	}
	return "", status
}

func (w *world) claim(name string) *resourceapi.ResourceClaim {
	w.t.Helper()
	claim, err := w.client.ResourceV1().ResourceClaims("default").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return claim
}

// writes counts what was asked of the API server since the last call.
func (w *world) writes() map[string]int {
	counts := make(map[string]int)
	for _, action := range w.client.Actions() {
		switch action.GetVerb() {
		case "create", "update", "patch", "delete":
			name := action.GetVerb() + " " + action.GetResource().Resource
			if action.GetSubresource() != "" {
				name += "/" + action.GetSubresource()
			}
			counts[name]++
		}
	}
	w.client.ClearActions()
	return counts
}
