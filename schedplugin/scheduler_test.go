// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/dray-project/dray/internal/dev/fakeapi"
)

// dray is the profile of dray-scheduler.
const dray = `
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Dray, weight: 2}]}
    preEnqueue: {enabled: [{name: Dray}]}
    postFilter: {enabled: [{name: Dray}]}
    podGroupPostFilter: {enabled: [{name: Dray}]}
    preFilter: {enabled: [{name: Counter}]}
    permit: {enabled: [{name: Counter}]}
`

// inTree is the profile of kube-scheduler.
const inTree = `
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: Counter}]}
`

// rig is a whole scheduler, with its queue, on a cluster in memory. Pods that it evicts are
// gone at once, and the claims of pods that are gone are deallocated.
type rig struct {
	t      testing.TB
	ctx    context.Context
	client *fake.Clientset
	sched  *scheduler.Scheduler
	mu     sync.Mutex
	// attempts counts the scheduling attempts that were made of pods, by name.
	attempts map[string]int
	// written counts Events by reason.
	written map[string]int
	// patches are those of the status of PodGroups. A later one may follow at once.
	patches []string
	handle  fwk.Handle
	// ended gets pods that are deleted, if anybody wants to know.
	ended chan *corev1.Pod
	// observed has the deletion of a pod return when the scheduler knows that the pod ends. Then
	// it does not choose anew whom to preempt in the meantime.
	observed bool
	// held is closed when the pod first waits, with its devices reserved.
	held chan struct{}
	once sync.Once
}

func profilesOf(t testing.TB, text string) []config.KubeSchedulerProfile {
	t.Helper()
	raw := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:" + text
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(raw), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*config.KubeSchedulerConfiguration).Profiles
}

// newScheduler makes a scheduler, or says why there is none.
func newScheduler(t testing.TB, profiles string, objects ...runtime.Object) (*rig, error) {
	t.Helper()
	return newSchedulerOf(t, profiles, fake.NewClientset(objects...))
}

func newSchedulerOf(t testing.TB, profiles string, client *fake.Clientset) (*rig, error) {
	t.Helper()
	return newSchedulerWith(t, profiles, client, New)
}

// newSchedulerWith has the plugin made by somebody else.
func newSchedulerWith(t testing.TB, profiles string, client *fake.Clientset, plugin frameworkruntime.PluginFactory) (*rig, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{t: t, ctx: ctx, client: client, attempts: make(map[string]int), written: make(map[string]int), held: make(chan struct{})}
	r.client.PrependReactor("*", "*", new(apiServer).react(r.client.Tracker()))
	r.client.PrependReactor("create", "pods", r.bind)
	r.client.PrependReactor("delete", "pods", r.terminate)
	r.client.PrependReactor("create", "events", r.count)
	r.client.PrependReactor("patch", "events", r.count)
	r.client.PrependReactor("patch", "podgroups", r.keepPatch)
	factory := scheduler.NewInformerFactory(r.client, 0, nil)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	sched, err := scheduler.New(ctx, r.client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(profilesOf(t, profiles)...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			Name: plugin,
			"Counter": func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				r.handle = handle
				return counter{r}, nil
			},
		}),
		scheduler.WithPodInitialBackoffSeconds(0),
		scheduler.WithPodMaxBackoffSeconds(0),
	)
	t.Cleanup(func() { cancel(); broadcaster.Shutdown(); factory.Shutdown() })
	if err != nil {
		return nil, err
	}
	r.sched = sched
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	fakeapi.AwaitWatches(t, client)
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	return r, nil
}

// bind puts a pod on the node of a binding.
func (r *rig) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
	stored, err := r.client.Tracker().Get(action.GetResource(), action.GetNamespace(), binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := stored.(*corev1.Pod).DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	return true, binding, r.client.Tracker().Update(action.GetResource(), pod, action.GetNamespace())
}

// terminate has a pod end before it is gone.
func (r *rig) terminate(action clienttesting.Action) (bool, runtime.Object, error) {
	stored, err := r.client.Tracker().Get(action.GetResource(), action.GetNamespace(), action.(clienttesting.DeleteAction).GetName())
	if err != nil {
		return true, nil, err
	}
	pod := stored.(*corev1.Pod).DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if err := r.client.Tracker().Update(action.GetResource(), pod, action.GetNamespace()); err != nil {
		return true, nil, err
	}
	for r.observed && r.ctx.Err() == nil {
		if known, err := r.sched.Cache.GetPod(pod); err == nil && known.DeletionTimestamp != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if r.ended != nil {
		r.ended <- pod
	}
	return false, nil, nil
}

func (r *rig) count(action clienttesting.Action) (bool, runtime.Object, error) {
	reason := "series"
	if create, ok := action.(clienttesting.CreateAction); ok {
		if event, ok := create.GetObject().(*eventsv1.Event); ok {
			reason = event.Reason
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[reason]++
	return false, nil, nil
}

// keepPatch has what was written of a group, though it is written over at once.
func (r *rig) keepPatch(action clienttesting.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patches = append(r.patches, string(action.(clienttesting.PatchAction).GetPatch()))
	return false, nil, nil
}

// counter is a plugin that counts attempts.
type counter struct{ *rig }

func (c counter) Name() string { return "Counter" }

func (c counter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (c counter) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts[pod.Name]++
	return nil, nil
}

// Permit has one pod wait in its first attempt.
func (c counter) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Name != "first" || c.attemptsOf("first") > 1 {
		return nil, 0
	}
	c.once.Do(func() { close(c.held) })
	return fwk.NewStatus(fwk.Wait), time.Minute
}

// PodGroupPostFilter counts groups that failed.
func (c counter) PodGroupPostFilter(_ context.Context, _ fwk.PodGroupCycleState, group fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts["group "+group.GetName()]++
	return nil, fwk.NewStatus(fwk.Unschedulable, "counted")
}

func (r *rig) attemptsOf(pod string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[pod]
}

func (r *rig) run() { go r.sched.Run(r.ctx) }

func (r *rig) create(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		if pod.Spec.SchedulerName == "" {
			pod.Spec.SchedulerName = "default-scheduler"
		}
		if _, err := r.client.CoreV1().Pods(pod.Namespace).Create(r.ctx, pod, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) pod(name string) *corev1.Pod {
	r.t.Helper()
	pod, err := r.client.CoreV1().Pods("default").Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return pod
}

// waitFor waits until pods are on nodes. It fails after the time that a pod may take which is
// not forgotten.
func (r *rig) waitFor(limit time.Duration, pods ...string) {
	r.t.Helper()
	deadline := time.Now().Add(limit)
	for _, name := range pods {
		for r.pod(name).Spec.NodeName == "" {
			if time.Now().After(deadline) {
				r.t.Fatalf("pod %s is not scheduled after %s: %+v", name, limit, r.pod(name).Status.Conditions)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// waitForRejection waits until a pod was found unschedulable, and is back in the queue.
func (r *rig) waitForRejection(name string) {
	r.t.Helper()
	eventually(r.t, func() error {
		for _, condition := range r.pod(name).Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return nil
			}
		}
		_, queue := r.sched.SchedulingQueue.PendingPods()
		return fmt.Errorf("pod %s is not rejected after %d attempts: %s", name, r.attemptsOf(name), queue)
	})
	r.idle()
}

// idle waits until the queue has nothing to try.
func (r *rig) idle() {
	r.t.Helper()
	eventually(r.t, func() error {
		if _, summary := r.sched.SchedulingQueue.PendingPods(); !strings.Contains(summary, "activeQ:0; backoffQ:0") {
			return fmt.Errorf("the queue is not idle: %s", summary)
		}
		return nil
	})
}

// A scheduler has this plugin in all profiles or in none, in whatever way they are configured: neither plugin
// sees the other's claims in flight.
func TestAllProfilesUseThePluginOrNone(t *testing.T) {
	const other = `
- schedulerName: other
  plugins:
    multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Dray}]}
`
	const singly = `
- schedulerName: other
  plugins:
    multiPoint: {disabled: [{name: DynamicResources}]}
    preFilter: {enabled: [{name: Dray}]}
    filter: {enabled: [{name: Dray}]}
    reserve: {enabled: [{name: Dray}]}
    preBind: {enabled: [{name: Dray}]}
`
	const both = `
- schedulerName: other
  plugins:
    multiPoint: {enabled: [{name: Dray}]}
`
	const again = `
- schedulerName: other
  plugins:
    multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Dray}]}
    reserve: {enabled: [{name: DynamicResources}]}
`
	for name, test := range map[string]struct {
		profiles string
		refused  bool
	}{
		"all have this one":          {dray + other, false},
		"one has the other":          {inTree + other, true},
		"the same in other order":    {other + inTree, true},
		"by single points":           {inTree + singly, true},
		"single points by itself":    {dray + singly, false},
		"both in one":                {both, true},
		"the other at a point":       {again, true},
		"the other at a point, late": {dray + again, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newScheduler(t, test.profiles)
			if refused := err != nil && strings.Contains(err.Error(), "plugin "+dynamicresources.Name+" is enabled, too"); refused != test.refused || !refused && err != nil {
				t.Errorf("refused: %v, want %v (%v)", refused, test.refused, err)
			}
		})
	}
}
