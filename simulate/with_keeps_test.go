// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
)

// event has a pod on a node with a device by a claim of its own.
func event(c *Cluster, node, number, device int) Cluster {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("running-", number), UID: "uid"}}
	pod.Spec.NodeName = c.Nodes[node].Name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("kind-0")}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.Name + "-gpu"}}
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
	claim.Spec = c.Templates[0].Spec.Spec
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r0", Driver: "gpu.example.com", Pool: pod.Spec.NodeName, Device: fmt.Sprint("gpu-", device)},
	}}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
	return Cluster{Pods: []*corev1.Pod{pod}, Claims: []*resourceapi.ResourceClaim{claim}}
}

// After an event of a pod, nothing is asked again but for the node of the pod; once as many objects changed as there are, what
// was kept of those before goes.
func TestWithKeeps(t *testing.T) {
	RunUsual(t)
	const nodes, kinds = 40, 3
	c, pods := large(nodes, kinds)
	asked := 0
	state, err := Open(c, Options{Features: allocator.AllFeatures(), NodeFit: NodeFit{Fits: func(*corev1.Pod, *corev1.Node) (bool, error) {
		asked++
		return true, nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(pods)
	if err != nil {
		t.Fatal(err)
	}
	count := func(want int) {
		t.Helper()
		for _, shape := range shapes {
			if found, err := state.FitsMany(t.Context(), shape, Real(nil)); err != nil || found.Pods != want {
				t.Fatalf("%d pods fit, want %d, %v", found.Pods, want, err)
			}
		}
	}
	count(8 * nodes)
	before := asked
	again := 0
	for i := range 3 * fewChanges / 4 {
		came := event(&c, i%nodes, i, i%8)
		next, err := state.With(Changes{Set: came})
		if err != nil {
			t.Fatal(err)
		}
		if next.world.family != state.world.family {
			again++
			before = asked + kinds // each is checked once
			c, came = next.world.input.cluster(), event(&c, i%nodes, i, i%8)
		}
		if state = next; i%16 == 0 {
			count(8*nodes - 1)
		}
		if asked > before && again == 0 {
			t.Fatalf("event %d: %d questions about pods and nodes", i, asked-before)
		}
		if state, err = state.With(Changes{Gone: came}); err != nil {
			t.Fatal(err)
		}
		if n := state.world.input.changed; n > fewChanges+8 {
			t.Fatalf("event %d: %d changes are kept", i, n)
		}
	}
	count(8 * nodes)
	if again < 1 || again > 6 {
		t.Errorf("all was read again %d times", again)
	}
}

// A Shape outlives a change of claims, which are read again for it.
func TestWithReadsShapesAgain(t *testing.T) {
	c, _ := large(2, 1)
	came := event(&c, 0, 0, 0)
	came.Claims[0].OwnerReferences = nil
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	if state, err = state.With(Changes{Set: Cluster{Claims: came.Claims}}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pending"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &came.Claims[0].Name}}
	shapes, err := state.Shapes([]*corev1.Pod{pod})
	if err != nil {
		t.Fatal(err)
	}
	if state, err = state.With(Changes{Gone: Cluster{Claims: came.Claims}}); err != nil {
		t.Fatal(err)
	}
	if _, err := state.FitsMany(t.Context(), shapes[0], Real(nil)); err == nil {
		t.Error("no error without the claim")
	}
}

// BenchmarkWith is an event of a pod with a claim.
func BenchmarkWith(b *testing.B) {
	for _, nodes := range []int{1_000, 4_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, _ := large(nodes, 1)
			state, err := Open(c, Options{Features: allocator.AllFeatures()})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				came := event(&c, i%nodes, i%nodes, i%8)
				for _, changes := range []Changes{{Set: came}, {Gone: came}} {
					if state, err = state.With(changes); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// TestWithAtOnce has several goroutines follow one State, each with events of its own, and ask about what comes of them.
func TestWithAtOnce(t *testing.T) {
	const nodes, chains, events = 6, 8, 6
	c, pods := large(nodes, 3)
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(pods)
	if err != nil {
		t.Fatal(err)
	}
	told := func(s *State) (text string) {
		for i, shape := range shapes {
			fit, err := s.FitsMany(t.Context(), shape, Real(nil))
			placed, failed := s.Sim().Place(t.Context(), pods[i], Real(nil), FirstFit)
			text += fmt.Sprint(fit, err, failed)
			for p := range placed.Placements() {
				claims, err := p.Claims(t.Context())
				if err != nil {
					text += err.Error()
				}
				for _, claim := range claims {
					text += fmt.Sprint(" ", p.Node.Name(), claim.Status.Allocation.Devices.Results)
				}
			}
		}
		return text
	}
	var got [chains]string
	var group sync.WaitGroup
	for n := range chains {
		group.Go(func() {
			s := state
			for i := range events {
				next, err := s.With(Changes{Set: event(&c, n%nodes, n*events+i, i)})
				if err != nil {
					t.Error(err)
					return
				}
				if next.world.family != state.world.family {
					t.Errorf("goroutine %d: all was read again", n)
				}
				s = next
				_ = told(s) // what others find out meanwhile
			}
			got[n] = told(s)
		})
	}
	group.Wait()
	for n := range chains {
		fresh := c
		for i := range events {
			more := event(&c, n%nodes, n*events+i, i)
			fresh.Pods, fresh.Claims = append(slices.Clip(fresh.Pods), more.Pods...), append(slices.Clip(fresh.Claims), more.Claims...)
		}
		opened, err := Open(fresh, Options{Features: allocator.AllFeatures()})
		if err != nil {
			t.Fatal(err)
		}
		if want := told(opened); got[n] != want {
			t.Errorf("goroutine %d: %s, read anew %s", n, got[n], want)
		}
	}
	if untouched := told(state); untouched == got[0] {
		t.Errorf("the State before has changed, or the events make no difference: %s", untouched)
	}
}
