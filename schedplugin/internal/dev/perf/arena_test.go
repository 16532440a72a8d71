// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/dray-project/dray/internal/dev/fakeapi"
)

// arena is a fleet with a plugin in a scheduler framework.
type arena struct {
	tb     testing.TB
	ctx    context.Context
	client *fake.Clientset
	fleet  *fleet
	plugin filtering
	nodes  []fwk.NodeInfo
	// reserved undoes what pods were given.
	reserved []func()
}

func newArena(tb testing.TB, f *fleet, plugin func(context.Context, fwk.Handle) (fwk.Plugin, error)) *arena {
	tb.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.LoggerWithName(klog.Background(), f.name)))
	client := fake.NewClientset(f.objects(phasePods)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(&quiet{&events.FakeRecorder{}}),
		frameworkruntime.WithSharedDRAManager(newDRA(tb, ctx, client, factory)),
	)
	if err != nil {
		tb.Fatal(err)
	}
	made, err := plugin(ctx, handle)
	if err != nil {
		tb.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	fakeapi.AwaitWatches(tb, client)
	tb.Cleanup(func() { cancel(); factory.Shutdown(); frameworkruntime.WaitForShutdown(handle) })
	a := &arena{tb: tb, ctx: ctx, client: client, fleet: f, plugin: made.(filtering)}
	for i := range f.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}})
		a.nodes = append(a.nodes, info)
	}
	return a
}

// quiet is a recorder of events which nobody reads.
type quiet struct{ *events.FakeRecorder }

func (q *quiet) WithLogger(klog.Logger) events.EventRecorderLogger { return q }

func newDRA(tb testing.TB, ctx context.Context, client *fake.Clientset, factory informers.SharedInformerFactory) *dynamicresources.DefaultDRAManager { //nolint:revive // tb comes first in tests
	tb.Helper()
	resources := factory.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: client})
	if err != nil {
		tb.Fatal(err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "resource claim", "", nil)
	return dynamicresources.NewDRAManager(ctx, claims, slices, factory)
}

// settle waits until the plugin knows of all that there is. Informers tell of one object after the
// other, so that each pod's claim is asked for.
func (a *arena) settle() {
	a.tb.Helper()
	want := 0
	if a.fleet.fits {
		want = a.fleet.nodes
	}
	problem := ""
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if problem = a.unsettled(want); problem == "" {
			return
		}
	}
	a.tb.Fatal(problem)
}

// unsettled says what the plugin does not know of yet, if anything.
func (a *arena) unsettled(want int) string {
	for i := range phasePods {
		if _, status := a.plugin.PreFilter(a.ctx, framework.NewCycleState(), pod(i), a.nodes); !status.IsSuccess() {
			return fmt.Sprintf("PreFilter of pod %s: %s", pod(i).Name, status.Message())
		}
	}
	if got := len(a.filter(framework.NewCycleState(), pod(0))); got != want {
		return fmt.Sprintf("%d of %d nodes suit a pod, want %d", got, a.fleet.nodes, want)
	}
	return ""
}

// filter returns the nodes that suit a pod.
func (a *arena) filter(state fwk.CycleState, pod *corev1.Pod) []string {
	a.tb.Helper()
	if _, status := a.plugin.PreFilter(a.ctx, state, pod, a.nodes); !status.IsSuccess() {
		a.tb.Fatalf("PreFilter of pod %s: %s", pod.Name, status.Message())
	}
	suited := make([]string, 0, len(a.nodes))
	for _, node := range a.nodes {
		if a.plugin.Filter(a.ctx, state, pod, node).IsSuccess() {
			suited = append(suited, node.Node().Name)
		}
	}
	return suited
}

// reserve gives a pod its devices on the first node.
func (a *arena) reserve(state fwk.CycleState, pod *corev1.Pod, suited []string) {
	if a.fleet.fits == (len(suited) == 0) {
		a.tb.Fatalf("pod %s fits %d nodes", pod.Name, len(suited))
	}
	if len(suited) == 0 {
		return
	}
	if status := a.plugin.Reserve(a.ctx, state, pod, suited[0]); !status.IsSuccess() {
		a.tb.Fatal(status.AsError())
	}
	a.reserved = append(a.reserved, func() { a.plugin.Unreserve(a.ctx, state, pod, suited[0]) })
}

func (a *arena) undo() {
	for _, undo := range a.reserved {
		undo()
	}
	a.reserved = nil
}
