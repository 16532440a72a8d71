// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// deallocateFor plays the resource claim controller: it deallocates what the pods had that are
// gone.
func (r *rig) deallocateFor() {
	r.ended = make(chan *corev1.Pod, 10_000)
	go func() {
		for {
			select {
			case <-r.ctx.Done():
				return
			case pod := <-r.ended:
				for i := range pod.Spec.ResourceClaims {
					for !r.deallocated(*pod.Spec.ResourceClaims[i].ResourceClaimName) {
					}
				}
			}
		}
	}()
}

// deallocated is false if somebody else wrote the claim at the same time.
func (r *rig) deallocated(name string) bool {
	claims := r.client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Get(r.ctx, name, metav1.GetOptions{})
	if err != nil {
		return true
	}
	claim = claim.DeepCopy()
	claim.Status = resourceapi.ResourceClaimStatus{}
	_, err = claims.UpdateStatus(r.ctx, claim, metav1.UpdateOptions{})
	return err == nil
}

// seen waits until the scheduler knows pods. The watch of the API server in memory panics if too
// many events wait to be read.
func (r *rig) seen(pods []*corev1.Pod) {
	known := r.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	eventually(r.t, func() error {
		for _, pod := range pods {
			if _, err := known.Pods(pod.Namespace).Get(pod.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// storm is n pods of high priority, each of which evicts one of low priority and runs in its
// place. There is one pod of low priority on each node.
type storm struct {
	nodes, pods int
	// cpu has the pods want CPU in stead of devices. Then there are no claims, and it is what the
	// scheduler takes by itself.
	cpu     bool
	profile string
}

// BenchmarkStorm is what that takes. A pod is tried twice, and each time all nodes are looked at,
// so that the CPU time for a pod grows with the nodes.
func BenchmarkStorm(b *testing.B) {
	for _, s := range []storm{
		{nodes: 50, pods: 50}, {nodes: 100, pods: 100}, {nodes: 200, pods: 200}, {nodes: 400, pods: 400},
		{nodes: 400, pods: 50}, {nodes: 400, pods: 100}, {nodes: 400, pods: 200},
	} {
		for _, kind := range []struct {
			name, profile string
			cpu           bool
		}{{"devices/dray", dray, false}, {"cpu/dray", dray, true}, {"cpu/in-tree", inTree, true}} {
			s.cpu, s.profile = kind.cpu, kind.profile
			b.Run(fmt.Sprintf("%s/nodes=%d/pods=%d", kind.name, s.nodes, s.pods), func(b *testing.B) {
				var spent time.Duration
				attempts := 0
				for b.Loop() {
					cpu, tried := s.run(b)
					spent, attempts = spent+cpu, attempts+tried
				}
				b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N*s.pods), "cpu-ms/pod")
				b.ReportMetric(float64(attempts)/float64(b.N*s.pods), "attempts/pod")
			})
		}
	}
}

// cluster has the pods of low priority in place, and returns those of high priority.
func (s storm) cluster() (objects []runtime.Object, pods []*corev1.Pod) {
	objects = append(objects, gpuClass())
	for i := range s.nodes {
		name := fmt.Sprintf("node-%d", i)
		low := s.pod("low-"+name, 1, "of-low-"+name)
		low.Spec.NodeName, low.Spec.SchedulerName, low.Status.Phase = name, "default-scheduler", corev1.PodRunning
		objects = append(objects, roomy(name), low)
		if !s.cpu {
			objects = append(objects, gpus(name, 1), reservedBy(held(gpuClaim("of-low-"+name, 1), name, "gpu-0"), low))
		}
	}
	for i := range s.pods {
		pods = append(pods, s.pod(fmt.Sprint("high-", i), 10, fmt.Sprint("of-high-", i)))
		if !s.cpu {
			objects = append(objects, gpuClaim(fmt.Sprint("of-high-", i), 1))
		}
	}
	return objects, pods
}

// pod is one that takes all there is of a node.
func (s storm) pod(name string, priority int32, claim string) *corev1.Pod {
	if !s.cpu {
		return withPriority(podWith(name, claim), priority)
	}
	pod := withPriority(podWith(name), priority)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}
	return pod
}

func (s storm) run(b *testing.B) (cpu time.Duration, attempts int) {
	objects, pods := s.cluster()
	// NewClientset spends more time on the managers of fields than the scheduler on pods.
	r, err := newSchedulerOf(b, s.profile, fake.NewSimpleClientset(objects...))
	r.must(err)
	r.deallocateFor()
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	before := cpuTime()
	r.run()
	for batch := range slices.Chunk(pods, 25) {
		r.create(batch...)
		r.seen(batch)
	}
	r.waitFor(4*time.Minute, names...)
	spent := cpuTime() - before
	s.verify(r, names)
	for _, name := range names {
		attempts += r.attemptsOf(name)
	}
	return spent, attempts
}

// verify checks that each pod has what it wants to itself.
func (s storm) verify(r *rig, names []string) {
	taken := make(map[string]string)
	for i, name := range names {
		pod, err := r.client.CoreV1().Pods("default").Get(r.ctx, name, metav1.GetOptions{})
		r.must(err)
		wants := []string{pod.Spec.NodeName}
		if !s.cpu {
			claim, err := r.client.ResourceV1().ResourceClaims("default").Get(r.ctx, fmt.Sprint("of-high-", i), metav1.GetOptions{})
			r.must(err)
			wants = devicesOf(claim)
		}
		if len(wants) != 1 || wants[0] == "" || taken[wants[0]] != "" {
			r.t.Fatalf("pod %s has %v, which pod %q has, too", name, wants, taken[wants[0]])
		}
		taken[wants[0]] = name
	}
}
