// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// broken is a state that cannot be read.
type broken struct{ fwk.CycleState }

func (broken) Read(fwk.StateKey) (fwk.StateData, error) { return nil, errors.New("broken") }

// foreignState is what some other plugin wrote under this one's key.
type foreignState struct{ fwk.StateData }

// A state that cannot be read is an error at each extension point, and none at all is a pod without claims.
func TestUnreadableState(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), gpuClaim("wanted", 1)}, args: "scoring: {packing: 1}"})
	p, info, pod := w.plugin, w.nodes[0], podWith("p", "wanted")
	points := map[string]func(state fwk.CycleState) *fwk.Status{
		"AddPod":    func(s fwk.CycleState) *fwk.Status { return p.AddPod(w.ctx, s, pod, w.attempt(pod).wrap(pod), info) },
		"RemovePod": func(s fwk.CycleState) *fwk.Status { return p.RemovePod(w.ctx, s, pod, w.attempt(pod).wrap(pod), info) },
		"Filter":    func(s fwk.CycleState) *fwk.Status { return p.Filter(w.ctx, s, pod, info) },
		"Score":     func(s fwk.CycleState) *fwk.Status { _, status := p.Score(w.ctx, s, pod, info); return status },
		"Reserve":   func(s fwk.CycleState) *fwk.Status { return p.Reserve(w.ctx, s, pod, "a") },
		"PreBind":   func(s fwk.CycleState) *fwk.Status { return p.PreBind(w.ctx, s, pod, "a") },
	}
	other := framework.NewCycleState()
	other.Write(stateKey, foreignState{})
	for name, ask := range points {
		if status := ask(broken{}); status.Code() != fwk.Error || status.Message() != "state of the scheduling cycle: broken" {
			t.Errorf("%s: a state that cannot be read: %v", name, status)
		}
		if status := ask(other); status.Code() != fwk.Error || status.Message() != "state of the scheduling cycle is schedplugin.foreignState" {
			t.Errorf("%s: something else: %v", name, status)
		}
		if status := ask(framework.NewCycleState()); !status.IsSuccess() {
			t.Errorf("%s: without a state: %v", name, status)
		}
	}
	for state, want := range map[fwk.CycleState]fwk.Code{broken{}: fwk.Error, framework.NewCycleState(): fwk.Unschedulable} {
		if result, status := p.PostFilter(w.ctx, state, pod, nil); result != nil || status.Code() != want {
			t.Errorf("PostFilter: %v, %v", result, status)
		}
	}
	for state, want := range map[fwk.CycleState]fwk.Code{broken{}: fwk.Error, framework.NewCycleState(): fwk.Skip} {
		if result, status := p.PreBindPreFlight(w.ctx, state, pod, "a"); status.Code() != want || result == nil || !result.AllowParallel {
			t.Errorf("PreBindPreFlight: %v, %v", result, status)
		}
	}
	p.Unreserve(w.ctx, broken{}, pod, "a")
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

// A node that Filter did not see cannot be taken.
func TestReserveWithoutFilter(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), node("b"), gpuClass(), gpus("a", 1), gpus("b", 1), gpuClaim("wanted", 1)}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")
	if status := w.plugin.Reserve(w.ctx, a.state, a.pod, "b"); status.Code() != fwk.Error || status.Message() != "node b was not found suitable before" {
		t.Errorf("status %v", status)
	}
	if pending := w.dra.ResourceClaims().GetPendingAllocation("wanted"); pending != nil {
		t.Errorf("in flight: %v", pending)
	}
}

// activating notes which pods are to be tried again, and when.
type activating struct {
	fwk.Handle
	pods []string
	at   []time.Time
}

func (a *activating) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name, pod := range pods {
		if name == pod.Namespace+"/"+pod.Name {
			a.pods, a.at = append(a.pods, name), append(a.at, time.Now())
		}
	}
}

// A pod whose search was given up is tried again after a while that doubles each time, up to a limit.
func TestRetry(t *testing.T) {
	for undecided, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 6: 32 * time.Second, 7: time.Minute, 8: time.Minute, 1000: time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			handle, start := &activating{}, time.Now()
			scheduler, end := context.WithCancel(t.Context())
			p := &Plugin{handle: handle, stopped: scheduler.Err, queueExists: func() bool { return true }}
			p.retry(t.Context(), podWith("p"), undecided)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(handle.pods) != 1 || handle.pods[0] != "default/p" || handle.at[0].Sub(start) != want {
				t.Errorf("after %d attempts: pods %v again at %v, want after %s", undecided, handle.pods, handle.at, want)
			}
			p.retry(t.Context(), podWith("p"), undecided)
			end()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(handle.pods) != 1 {
				t.Errorf("after %d attempts: tried after the scheduler ended", undecided)
			}
		})
	}
}

// The limits of a search are raised with each attempt in a row, three times.
func TestBudgetLevel(t *testing.T) {
	p := &Plugin{endings: refusal.NewEndings()}
	for attempt, want := range []int{0, 1, 2, 3, 3} {
		if got := p.budgetLevel("p"); got != want {
			t.Errorf("before attempt %d: %d, want %d", attempt+1, got, want)
		}
		pod := podWith("p")
		pod.UID = "p"
		p.endings.End(pod, refusal.Attempt{GaveUp: true})
	}
}

// What is said of several claims names them as the pod does. One claim needs no name.
func TestNamesOfClaims(t *testing.T) {
	claim := func(object, name string, extended bool) *claimstate.Claim {
		return &claimstate.Claim{Object: &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: object}}, Name: name, Extended: extended}
	}
	one, two := &variant{claims: []*claimstate.Claim{claim("a", "gpus", false)}}, &variant{claims: []*claimstate.Claim{claim("a", "gpus", false), claim("b", "", true)}}
	for _, test := range []struct {
		of         *variant
		name, want string
	}{
		{one, "ns/a", ""},
		{two, "ns/a", "claim gpus: "},
		{two, "ns/b", "extended resources: "},
		{two, "ns/c", "claim ns/c: "},
		{two, "other/a", "claim other/a: "},
	} {
		if got := test.of.OfClaim(test.name); got != test.want {
			t.Errorf("of %d claims, %s: %q, want %q", len(test.of.claims), test.name, got, test.want)
		}
	}
	object := &resourceapi.ResourceClaim{}
	object.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "nic"}, {Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "big"}, {Name: "small"}}},
	}
	for want, of := range map[string]*variant{
		"nic gpu or big or small": one,
		"claim gpus nic gpu or big or small claim  nic gpu or big or small": two,
	} {
		if got := namesOf(of.claims, []*resourceapi.ResourceClaim{object, object}); got != want {
			t.Errorf("names %q, want %q", got, want)
		}
	}
	if objects := two.objects(two.claims); objects[0] != two.claims[0].Object || objects[1] != nil {
		t.Errorf("objects %v", objects)
	}
	if two.special = object; two.objects(two.claims)[1] != object {
		t.Error("the claim for extended resources is not the special one")
	}
}

// listing is a handle with a snapshot that knows the nodes of a placement, or fails.
type listing struct {
	fwk.Handle
	snapshot fwk.SharedLister
}

func (l listing) SnapshotSharedLister() fwk.SharedLister { return l.snapshot }

type placed struct {
	fwk.SharedLister
	nodes []fwk.NodeInfo
	err   error
}

func (p placed) ListNodesInPlacement() ([]fwk.NodeInfo, error) { return p.nodes, p.err }

// The nodes of a placement are those that the scheduler's own snapshot tells, with the feature, and else all.
func TestNodesInPlacement(t *testing.T) {
	all, some := []fwk.NodeInfo{framework.NewNodeInfo(), framework.NewNodeInfo()}, []fwk.NodeInfo{framework.NewNodeInfo()}
	for name, test := range map[string]struct {
		snapshot fwk.SharedLister
		topology bool
		want     int
	}{
		"of a placement":    {placed{nodes: some}, true, 1},
		"switched off":      {placed{nodes: some}, false, 2},
		"not known":         {placed{err: errors.New("no placement")}, true, 2},
		"another scheduler": {nil, true, 2},
	} {
		p := &Plugin{handle: listing{snapshot: test.snapshot}, features: feature.Features{EnableTopologyAwareWorkloadScheduling: test.topology}}
		if got := len(p.nodesInPlacement(all)); got != test.want {
			t.Errorf("%s: %d nodes, want %d", name, got, test.want)
		}
	}
}

// following is a framework with plugins that are asked when a group failed.
type following struct {
	fwk.Handle
	plugins []fwk.PodGroupPostFilterPlugin
}

func (f following) PodGroupPostFilterPlugins() []fwk.PodGroupPostFilterPlugin { return f.plugins }

type namedPlugin struct {
	fwk.PodGroupPostFilterPlugin
	name string
}

func (n namedPlugin) Name() string { return n.name }

// Only plugins after this one are asked after it.
func TestPluginsAfter(t *testing.T) {
	for order, want := range map[string]string{"": "", "Dray": "", "A Dray": "", "Dray A B": "A B", "A Dray B": "B"} {
		f := following{}
		for _, name := range strings.Fields(order) {
			f.plugins = append(f.plugins, namedPlugin{name: name})
		}
		var names []string
		for _, plugin := range (&Plugin{handle: f}).podGroupPostFiltersAfter() {
			names = append(names, plugin.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: after it are %q, want %q", order, got, want)
		}
	}
	if got := (&Plugin{handle: listing{}}).podGroupPostFiltersAfter(); got != nil {
		t.Errorf("of a handle that does not tell: %v", got)
	}
}

// A claim with devices that failed, are late or reach other nodes is of no use on a node, and the first one says why.
func TestUselessAllocations(t *testing.T) {
	w := newWorld(t, setting{args: "bindingTimeout: 1m"})
	here, there := node("a"), node("b")
	selected := func(claim *resourceapi.ResourceClaim, name string) *claimstate.Claim {
		allocation := claim.Status.Allocation
		allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		}}}
		reach, err := claimstate.ReachOf(allocation)
		if err != nil {
			t.Fatal(err)
		}
		return &claimstate.Claim{Object: claim, Reach: reach}
	}
	open := &claimstate.Claim{Object: gpuClaim("open", 1)}
	everywhere := &claimstate.Claim{Object: held(gpuClaim("everywhere", 1), "a", "gpu-0")}
	onA, onB := selected(held(gpuClaim("on-a", 1), "a", "gpu-0"), "a"), selected(held(gpuClaim("on-b", 1), "b", "gpu-0"), "b")
	skipping := &claimstate.Claim{Object: held(gpuClaim("skipping", 1), "a", "gpu-0")}
	skipping.Object.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{"some"}
	late := &claimstate.Claim{Object: held(gpuClaim("late", 1), "a", "gpu-0")}
	late.Object.Status.Allocation.Devices.Results[0].BindingConditions = []string{"ready"}
	late.Object.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	early := &claimstate.Claim{Object: late.Object.DeepCopy()}
	early.Object.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
	pending := &claimstate.Claim{Object: gpuClaim("pending", 1), Pending: late.Object.Status.Allocation}
	for name, test := range map[string]struct {
		claims []*claimstate.Claim
		node   *corev1.Node
		count  int
		reason string
	}{
		"none":              {nil, here, 0, ""},
		"usable":            {[]*claimstate.Claim{open, everywhere, onA, early, pending}, here, 0, ""},
		"on another node":   {[]*claimstate.Claim{open, onA}, there, 1, "resource claim default/on-a is allocated on other nodes"},
		"two on other ones": {[]*claimstate.Claim{onB, everywhere, late}, here, 2, "resource claim default/on-b is allocated on other nodes"},
		"late":              {[]*claimstate.Claim{early, late}, here, 1, "resource claim default/late has devices that did not get ready in time"},
		"needs a feature":   {[]*claimstate.Claim{skipping}, here, 1, "resource claim default/skipping has devices that need a node with the feature DRAOptionalNodeOperations"},
	} {
		unusable, reason := w.plugin.unusable(test.claims, test.node)
		if len(unusable) != test.count || reason != test.reason {
			t.Errorf("%s: %d claims, %q; want %d, %q", name, len(unusable), reason, test.count, test.reason)
		}
	}
}
