// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/autoscaler"
)

// start has what a cluster has at first: a pool for all nodes, classes, and claims that pods share.
func start() (shared []*resourceapi.ResourceClaim, network []*resourceapi.ResourceSlice) {
	return []*resourceapi.ResourceClaim{
		newClaim("shared-gpu", nil, request("gpu", 1)), newClaim("shared-address", nil, request("address", 1)),
	}, networkSlices()
}

func networkSlices() []*resourceapi.ResourceSlice { return []*resourceapi.ResourceSlice{network()} }

func newSnapshot(t testing.TB) *autoscaler.Snapshot {
	t.Helper()
	shared, network := start()
	snapshot := autoscaler.NewSnapshot(nil, nil, network, classes())
	if err := snapshot.AddClaims(shared); err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func newPlain(t testing.TB) *plain {
	t.Helper()
	shared, network := start()
	p := &plain{claims: make(map[string]*resourceapi.ResourceClaim), classes: classes(), slices: map[string][]*resourceapi.ResourceSlice{"": network}}
	if err := p.AddClaims(shared); err != nil {
		t.Fatal(err)
	}
	return p
}

// loop plays the same to several simulations, and compares what they say.
type loop struct {
	t        testing.TB
	random   *rand.Rand
	all      []*simulation
	pods     []*corev1.Pod
	forks    [][]*corev1.Pod // the pods at each open fork
	at       map[string]string
	atBefore []map[string]string
	made     int
	log      []string
	placed   int
	refused  int
}

// each plays a step to all, and returns what they agree on.
func (l *loop) each(what string, step func(*simulation) (string, error)) string {
	l.t.Helper()
	l.log = append(l.log, what)
	var first string
	for i, s := range l.all {
		got, err := step(s)
		if err != nil {
			l.t.Fatalf("%s: %v, after\n%s", s.name, err, strings.Join(l.log, "\n"))
		}
		compareStates(l.t, s)
		if got += "\n" + describe(l.t, s.dra); i == 0 {
			first = got
		} else if got != first {
			l.t.Fatalf("%s and %s differ:\n%s\n\n%s\nafter\n%s", l.all[0].name, s.name, first, got, strings.Join(l.log, "\n"))
		}
	}
	answer, _, _ := strings.Cut(first, "\n")
	return answer
}

// compareStates compares what a manager says is allocated with what its claims say.
func compareStates(t testing.TB, s *simulation) {
	t.Helper()
	claims, err := s.dra.ResourceClaims().List()
	if err != nil {
		t.Fatal(err)
	}
	state, err := s.dra.ResourceClaims().GatherAllocatedState()
	if err != nil {
		t.Fatal(err)
	}
	want := allocatedState(claims)
	sameCapacity := maps.EqualFunc(state.AggregatedCapacity, want.AggregatedCapacity, func(a, b structured.ConsumedCapacity) bool {
		return maps.EqualFunc(a, b, func(x, y *resource.Quantity) bool { return x.Cmp(*y) == 0 })
	})
	if !state.AllocatedDevices.Equal(want.AllocatedDevices) || !state.AllocatedSharedDeviceIDs.Equal(want.AllocatedSharedDeviceIDs) || !sameCapacity {
		t.Fatalf("%s: allocated is %+v, want %+v", s.name, state, want)
	}
}

// pending makes a pod with claims of its own, and sometimes one that it shares.
func (l *loop) pending() (*corev1.Pod, []*resourceapi.ResourceClaim) {
	l.made++
	pod := newPod(fmt.Sprint("pod-", l.made))
	var claims []*resourceapi.ResourceClaim
	own := func(kind string, asked *resourceapi.ExactDeviceRequest) *resourceapi.ResourceClaim {
		claim := newClaim(pod.Name+"-"+kind, pod, asked)
		refer(pod, claim)
		claims = append(claims, claim)
		return claim
	}
	switch l.random.IntN(8) {
	case 0:
		asked := request("gpu", 1)
		asked.AdminAccess = ptr.To(true)
		own("admin", asked)
	case 1:
		asked := request("disk", 1)
		asked.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"size": resource.MustParse("3Gi")}}
		own("disk", asked)
	case 2:
		own("address", request("address", 1))
	case 3:
		refer(pod, newClaim([]string{"shared-gpu", "shared-address"}[l.random.IntN(2)], nil, nil))
		fallthrough
	case 4:
		asked := request("gpu", 1+l.random.Int64N(2))
		asked.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes[%q].model == "large"`, driver),
		}}}
		own("large", asked)
	default:
		claim := own("gpus", request("gpu", 1+l.random.Int64N(3)))
		claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
	}
	return pod, claims
}

func (l *loop) step() {
	switch n := l.random.IntN(20); {
	case n < 10:
		pod, claims := l.pending()
		where := l.each("place "+pod.Name, func(s *simulation) (string, error) {
			if err := s.dra.AddClaims(claims); err != nil {
				return "", err
			}
			return s.scheduleAnywhere(l.t.Context(), pod)
		})
		if l.pods, l.at[pod.Name] = append(slices.Clip(l.pods), pod), where; where == "" {
			l.refused++
		} else {
			l.placed++
		}
	case n < 12:
		l.addNode()
	case n < 15 && len(l.pods) > 0:
		pod := l.pods[l.random.IntN(len(l.pods))]
		node := l.at[pod.Name]
		if node == "" {
			return
		}
		l.each("take off "+pod.Name, func(s *simulation) (string, error) { return "", s.unschedule(pod, node) })
		// As a drain does: it goes somewhere, perhaps back.
		l.at[pod.Name] = l.each("move "+pod.Name, func(s *simulation) (string, error) {
			return s.scheduleAnywhere(l.t.Context(), pod)
		})
	case n == 15 && len(l.all[0].nodes) > 1:
		node := l.all[0].nodes[l.random.IntN(len(l.all[0].nodes))].Name
		l.each("remove "+node, func(s *simulation) (string, error) { s.removeNode(node); return "", nil })
		l.pods = slices.DeleteFunc(slices.Clone(l.pods), func(pod *corev1.Pod) bool { return l.at[pod.Name] == node })
	case n == 16 || n == 17:
		l.each("fork", func(s *simulation) (string, error) { s.fork(); return "", nil })
		l.forks = append(l.forks, l.pods)
		at := make(map[string]string, len(l.at))
		for pod, node := range l.at {
			at[pod] = node
		}
		l.atBefore = append(l.atBefore, at)
	case n == 18 && len(l.forks) > 0:
		l.each("revert", func(s *simulation) (string, error) { s.revert(); return "", nil })
		l.pods, l.at = l.forks[len(l.forks)-1], l.atBefore[len(l.forks)-1]
		l.drop()
	case n == 19 && len(l.forks) > 0:
		l.each("commit", func(s *simulation) (string, error) { s.commit(); return "", nil })
		l.drop()
	}
}

func (l *loop) drop() {
	l.forks, l.atBefore = l.forks[:len(l.forks)-1], l.atBefore[:len(l.atBefore)-1]
}

func (l *loop) addNode() {
	l.made++
	name := fmt.Sprint("node-", l.made)
	l.each("add "+name, func(s *simulation) (string, error) { return "", s.addNode(newNode(name), slicesOf(name)) })
}

// TestSameAnswers plays what an autoscaler does to Dray on a Snapshot, to the in-tree plugin on
// another, and to the in-tree plugin on the plainest manager. Nodes, devices and consumers are the
// same throughout.
func TestSameAnswers(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	placed, refused := 0, 0
	for seed := range uint64(rounds) {
		l := &loop{t: t, random: rand.New(rand.NewPCG(seed, 1)), at: make(map[string]string), all: []*simulation{
			newSimulation(t, "Dray", schedplugin.Name, newSnapshot(t)),
			newSimulation(t, "in-tree", names.DynamicResources, newSnapshot(t)),
			newSimulation(t, "in-tree on the plain manager", names.DynamicResources, newPlain(t)),
		}}
		for _, s := range l.all {
			s.parallel = seed%2 == 0
		}
		l.addNode()
		for range 60 {
			l.step()
		}
		placed, refused = placed+l.placed, refused+l.refused
	}
	t.Logf("%d pods placed, %d refused", placed, refused)
	if placed < 10*rounds || refused < rounds {
		t.Errorf("%d pods placed and %d refused in %d rounds: too few to compare", placed, refused, rounds)
	}
}

// A claim for extended resources is made by the plugin. It goes with its pod.
func TestExtendedResources(t *testing.T) {
	for _, plugin := range []string{schedplugin.Name, names.DynamicResources} {
		t.Run(plugin, func(t *testing.T) {
			s := newSimulation(t, plugin, plugin, newSnapshot(t))
			if err := s.addNode(newNode("a"), slicesOf("a")); err != nil {
				t.Fatal(err)
			}
			var pods []*corev1.Pod
			for i, want := range []string{"a", "a", ""} {
				pod := newPod(fmt.Sprint("pod-", i))
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("4")}
				where, err := s.scheduleAnywhere(t.Context(), pod)
				if err != nil || where != want {
					t.Fatalf("%s: placed on %q, %v; want %q", pod.Name, where, err, want)
				}
				pods = append(pods, pod)
			}
			s.dra.Fork()
			if err := s.unschedule(pods[0], "a"); err != nil {
				t.Fatal(err)
			}
			if where, err := s.scheduleAnywhere(t.Context(), pods[2]); err != nil || where != "a" {
				t.Errorf("the devices of a pod that went were not free: placed on %q, %v", where, err)
			}
			s.dra.Revert()
			if where, err := s.scheduleAnywhere(t.Context(), pods[2]); err != nil || where != "" {
				t.Errorf("the devices of a pod that came back were free: placed on %q, %v", where, err)
			}
			s.dra.RemovePodOwnedClaims(pods[1])
			if where, err := s.scheduleAnywhere(t.Context(), pods[2]); err != nil || where != "a" {
				t.Errorf("the devices of a pod that was removed were not free: placed on %q, %v", where, err)
			}
		})
	}
}

// A pod whose claim for extended resources is known from the API server can be moved: the claim goes, and
// the plugin makes another.
func TestMoveWithExtendedResources(t *testing.T) {
	for _, plugin := range []string{schedplugin.Name, names.DynamicResources} {
		t.Run(plugin, func(t *testing.T) {
			pod, other := newPod("pod"), newPod("other")
			for _, p := range []*corev1.Pod{pod, other} {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("8")}
			}
			claim := newClaim("pod-extended-resources-x", pod, request("gpu", 8))
			claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
			claim.Status.Allocation = &resourceapi.AllocationResult{}
			for gpu := range 8 {
				claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
					Request: "devices", Driver: driver, Pool: "a-gpus", Device: fmt.Sprint("gpu-", gpu),
				})
			}
			known := map[autoscaler.ResourceClaimId]*resourceapi.ResourceClaim{autoscaler.GetClaimId(claim): claim}
			snapshot := autoscaler.NewSnapshot(known, map[string][]*resourceapi.ResourceSlice{"a": slicesOf("a")}, nil, classes())
			s := newSimulation(t, plugin, plugin, snapshot)
			s.found(newNode("a"), pod)
			if err := s.addNode(newNode("b"), slicesOf("b")); err != nil {
				t.Fatal(err)
			}
			s.fork()
			if places, err := s.drain(t.Context(), "a"); err != nil || len(places) != 1 || places[0] != "b" {
				t.Errorf("the pod went to %q, %v", places, err)
			}
			if where, err := s.scheduleAnywhere(t.Context(), other); err != nil || where != "" {
				t.Errorf("another pod was placed on %q, %v", where, err)
			}
			s.revert()
			before := describe(t, snapshot)
			if where, err := s.scheduleAnywhere(t.Context(), other); err != nil || where != "b" {
				t.Errorf("when all was as before, another pod was placed on %q, %v", where, err)
			}
			if !strings.HasPrefix(before, "pod-extended-resources-x: a-gpus/gpu-0") {
				t.Errorf("Revert left %s", before)
			}
		})
	}
}

// Rules taint devices of slices that are there, and of those that come.
func TestDeviceTaintRules(t *testing.T) {
	for _, plugin := range []string{schedplugin.Name, names.DynamicResources} {
		t.Run(plugin, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.DRADeviceTaints: true, features.DRADeviceTaintRules: true,
			})
			snapshot := newSnapshot(t)
			s := newSimulation(t, plugin, plugin, snapshot)
			if err := s.addNode(newNode("a"), slicesOf("a")); err != nil {
				t.Fatal(err)
			}
			rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(driver)},
				Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
			}}
			if err := snapshot.SetDeviceTaintRules([]*resourceapi.DeviceTaintRule{rule}); err != nil {
				t.Fatal(err)
			}
			pod := newPod("pod")
			claim := newClaim("claim", pod, request("gpu", 1))
			refer(pod, claim)
			if err := snapshot.AddClaims([]*resourceapi.ResourceClaim{claim}); err != nil {
				t.Fatal(err)
			}
			snapshot.Fork()
			if err := s.addNode(newNode("b"), slicesOf("b")); err != nil {
				t.Fatal(err)
			}
			if where, err := s.scheduleAnywhere(t.Context(), pod); err != nil || where != "" {
				t.Errorf("placed on %q, %v, with devices that are tainted", where, err)
			}
			if given, _ := snapshot.NodeResourceSlices("b"); len(given[0].Spec.Devices[0].Taints) != 0 {
				t.Error("a slice was changed")
			}
			if err := snapshot.SetDeviceTaintRules(nil); err == nil {
				t.Error("rules were changed while a fork was open")
			}
			snapshot.Commit()
			if err := snapshot.SetDeviceTaintRules(nil); err != nil {
				t.Fatal(err)
			}
			if where, err := s.scheduleAnywhere(t.Context(), pod); err != nil || where != "a" {
				t.Errorf("placed on %q, %v, when the rule was gone", where, err)
			}
		})
	}
}
