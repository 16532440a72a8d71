// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// world is a cluster in memory, of which the model sees slices and claims.
type world struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	t       *testing.T
	rand    *rand.Rand
	nodes   []*corev1.Node
	slices  []*resourceapi.ResourceSlice
	claims  []*resourceapi.ResourceClaim
	pods    []*corev1.Pod // on nodes
	pending map[types.UID]*resourceapi.AllocationResult
	version int
}

const (
	nodesOfWorld   = 2
	devicesOfNode  = 4
	changesOfWorld = 30
)

func (w *world) ResourceClaims() fwk.ResourceClaimTracker    { return w }
func (w *world) ResourceSlices() fwk.ResourceSliceLister     { return w }
func (w *world) List() ([]*resourceapi.ResourceClaim, error) { return w.claims, nil }
func (w *world) GetPendingAllocation(claim types.UID) *resourceapi.AllocationResult {
	return w.pending[claim]
}
func (w *world) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return w.slices, nil
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 4))}
	for i := range nodesOfWorld {
		w.nodes = append(w.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
		w.slices = append(w.slices, w.slice(i, devicesOfNode))
	}
	return w
}

func (w *world) slice(node, devices int) *resourceapi.ResourceSlice {
	w.version++
	name := w.nodes[node].Name
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(w.version)}}
	slice.Spec.Driver, slice.Spec.NodeName = "d", ptr.To(name)
	slice.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: int64(w.version), ResourceSliceCount: 1}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint(i)})
	}
	return slice
}

func podOf(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return pod
}

func allocated(node, device int) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: "d", Pool: fmt.Sprint("n", node), Device: fmt.Sprint(device)},
	}}}
}

func consumer(pod string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)}
}

// change does one thing that happens to clusters. Objects are replaced, not changed in place.
func (w *world) change() {
	w.version++
	switch w.rand.IntN(8) {
	case 0: // a pod with a claim of its own starts
		node := w.rand.IntN(nodesOfWorld)
		name := fmt.Sprint("p", w.version)
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(w.version)}}
		claim.Status.Allocation = allocated(node, w.rand.IntN(devicesOfNode))
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(name))
		w.claims = append(w.claims, claim)
		pod := podOf(name, name)
		pod.Spec.NodeName = w.nodes[node].Name
		w.pods = append(w.pods, pod)
	case 1, 2: // a pod begins to end
		if len(w.pods) > 0 {
			at := w.rand.IntN(len(w.pods))
			pod := w.pods[at].DeepCopy()
			pod.DeletionTimestamp = &metav1.Time{}
			w.pods[at] = pod
		}
	case 3: // a pod is gone, and perhaps its claim
		if len(w.pods) > 0 {
			at := w.rand.IntN(len(w.pods))
			name := w.pods[at].Name
			w.pods = slices.Delete(w.pods, at, at+1)
			if w.rand.IntN(2) == 0 {
				w.claims = slices.DeleteFunc(w.claims, func(claim *resourceapi.ResourceClaim) bool { return claim.Name == name })
			}
		}
	case 4: // another pod, of another node or none yet, uses a claim, too; or does so no longer
		if len(w.claims) > 0 {
			at := w.rand.IntN(len(w.claims))
			claim := w.claims[at].DeepCopy()
			claim.ResourceVersion = fmt.Sprint(w.version)
			if users := claim.Status.ReservedFor; len(users) == 1 {
				claim.Status.ReservedFor = append(users, consumer("elsewhere"))
			} else {
				claim.Status.ReservedFor = users[:1]
			}
			w.claims[at] = claim
		}
	case 5: // a driver publishes anew
		at := w.rand.IntN(nodesOfWorld)
		w.slices = slices.Clone(w.slices)
		w.slices[at] = w.slice(at, devicesOfNode-w.rand.IntN(2))
	case 6: // the devices of a pod that is gone come free
		if at := slices.IndexFunc(w.claims, func(claim *resourceapi.ResourceClaim) bool { gone, _ := w.abandoned(claim); return gone }); at >= 0 {
			w.claims = slices.Delete(slices.Clone(w.claims), at, at+1)
		}
	case 7: // a node is updated
		at := w.rand.IntN(nodesOfWorld)
		w.nodes[at] = w.nodes[at].DeepCopy()
	}
}

func (w *world) withPods(node *corev1.Node) fwk.NodeInfo {
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		if pod.Spec.NodeName == node.Name {
			pods = append(pods, pod)
		}
	}
	with := framework.NewNodeInfo(pods...)
	with.SetNode(node)
	return with
}

func (w *world) claimsOf(pod *corev1.Pod) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for _, claim := range w.claims {
		if slices.ContainsFunc(pod.Spec.ResourceClaims, func(of corev1.PodResourceClaim) bool { return *of.ResourceClaimName == claim.Name }) {
			list = append(list, claim)
		}
	}
	return list
}

// firstFree gives each claim the first device of a node that is free.
func (w *world) firstFree(node *corev1.Node) func([]*resourceapi.ResourceClaim, *pools.State) []*resourceapi.ResourceClaim {
	return func(claims []*resourceapi.ResourceClaim, usage *pools.State) []*resourceapi.ResourceClaim {
		at := slices.IndexFunc(w.nodes, func(n *corev1.Node) bool { return n.Name == node.Name })
		gathered, err := usage.Snapshot().GatherPools(node)
		if err != nil {
			w.t.Fatal(err)
		}
		var list []*resourceapi.ResourceClaim
		for reached := range gathered.Pools() {
			for device := range reached.Pool().Devices() {
				if len(list) < len(claims) && !usage.Pool(reached.Pool()).InUse(device) {
					var number int
					if _, err := fmt.Sscan(device.ID().Device, &number); err != nil {
						w.t.Fatal(err)
					}
					claim := claims[len(list)].DeepCopy()
					claim.Status.Allocation = allocated(at, number)
					list = append(list, claim)
				}
			}
		}
		if len(list) < len(claims) {
			return nil
		}
		return list
	}
}

// abandoned reports whether the pods that use a claim are gone.
func (w *world) abandoned(claim *resourceapi.ResourceClaim) (bool, bool) {
	return !slices.ContainsFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool {
		return user.UID == "elsewhere" || slices.ContainsFunc(w.pods, func(pod *corev1.Pod) bool { return pod.UID == user.UID })
	}), false
}

func (w *world) own(own sets.Set[types.UID]) []*resourceapi.ResourceClaim {
	return slices.DeleteFunc(slices.Clone(w.claims), func(claim *resourceapi.ResourceClaim) bool { return !own.Has(claim.UID) })
}

// nominee is a pod that is nominated to a node, with its open claims.
type nominee struct {
	pod    types.UID
	claims []*resourceapi.ResourceClaim
}

// aside sets devices aside for pods one after the other, and says what that comes to.
func (w *world) aside(memory *asideCache, view *model.View, node *corev1.Node, own sets.Set[types.UID], nominated []nominee) string {
	w.t.Helper()
	supposed := &whatIf{}
	settled, err := view.Without("settled", w.abandoned, w.own(own))
	if err != nil {
		w.t.Fatal(err)
	}
	at := &target{View: view, Settled: settled, Node: w.withPods(node), Own: own, ClaimsOf: w.claimsOf, Allocate: w.firstFree(node)}
	for _, n := range nominated {
		if err := memory.SetAside(supposed, at, n.pod, n.claims); err != nil {
			w.t.Fatal(err)
		}
	}
	var text strings.Builder
	for _, claim := range supposed.SetAsideClaims() {
		fmt.Fprintf(&text, "%s gets %s; ", claim.Name, claim.Status.Allocation.Devices.Results[0].Device)
	}
	for reached := range view.PoolsOf(node) {
		for device := range reached.Pool().Devices() {
			if usage := supposed.Usage(); usage != nil && usage.Pool(reached.Pool()).InUse(device) {
				fmt.Fprintf(&text, "%s in use ", device.ID().Device)
			}
		}
	}
	return text.String()
}

// TestAsideCache shows that what was set aside in an earlier cycle, and is remembered, is what
// setting it aside anew would come to, whatever has changed since.
func TestAsideCache(t *testing.T) {
	remembered := 0
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		follows := model.New(w, pools.Gates{})
		var memory asideCache
		waiting := make([]nominee, 3)
		for i := range waiting {
			name := fmt.Sprint("waiting-", i)
			waiting[i].pod = types.UID(name)
			for k := range 1 + w.rand.IntN(2) {
				waiting[i].claims = append(waiting[i].claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, k), UID: types.UID(fmt.Sprint(name, k))}})
			}
		}
		for range changesOfWorld {
			if w.rand.IntN(3) > 0 {
				w.change()
			}
			view, err := follows.Observe()
			if err != nil {
				t.Fatal(err)
			}
			own := sets.New[types.UID]()
			if len(w.claims) > 0 && w.rand.IntN(4) == 0 {
				own.Insert(w.claims[w.rand.IntN(len(w.claims))].UID)
			}
			nominated := waiting[:1+w.rand.IntN(len(waiting))]
			for _, node := range w.nodes {
				before := memory.nodes[node.Name]
				got := w.aside(&memory, view, node, own, nominated)
				if want := w.aside(&asideCache{}, view, node, own, nominated); got != want {
					t.Fatalf("seed %d, node %s: remembered %q, anew %q", seed, node.Name, got, want)
				}
				if before != nil && memory.nodes[node.Name] == before {
					remembered++
				}
			}
		}
	}
	if remembered < 1000 {
		t.Errorf("%d times something was remembered", remembered)
	}
}
