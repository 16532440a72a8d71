package schedplugin

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

// A group of higher priority preempts pods for their devices: as many as it needs, and no more
// while the claims of those that are gone are still allocated.
func TestGroupPreemption(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.GenericWorkload: true,
	})
	const members, others = 2, 4
	group := &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang", UID: "gang"},
		Spec: schedulingapi.PodGroupSpec{
			Priority:         ptr.To[int32](10),
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: members}},
		},
	}
	objects := []runtime.Object{gpuClass(), group}
	for i := range others {
		name := fmt.Sprint("node-", i)
		low := withPriority(podWith("low-"+name, "of-low-"+name), 1)
		low.Spec.NodeName, low.Spec.SchedulerName, low.Status.Phase = name, "default-scheduler", corev1.PodRunning
		objects = append(objects, roomy(name), gpus(name, 1), low, reservedBy(held(gpuClaim("of-low-"+name, 1), name, "gpu-0"), low))
	}
	var pods []*corev1.Pod
	var names []string
	for i := range members {
		name := fmt.Sprint("member-", i)
		pod := withPriority(podWith(name, "of-"+name), 10)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
		pods, names = append(pods, pod), append(names, name)
		objects = append(objects, gpuClaim("of-"+name, 1))
	}
	r, err := newScheduler(t, dray, objects...)
	r.must(err)
	// Nobody deallocates what the victims had before the group had to wait for it.
	ended := make(chan *corev1.Pod, others)
	r.ended = ended
	r.run()
	r.create(pods...)
	var gone []*corev1.Pod
	for len(gone) < members {
		select {
		case pod := <-ended:
			gone = append(gone, pod)
		case <-time.After(2 * time.Minute):
			t.Fatalf("%d pods are preempted, want %d: %+v", len(gone), members, r.pod("member-0").Status)
		}
	}
	for _, name := range names {
		r.waitForRejection(name)
	}
	for _, pod := range gone {
		for !r.deallocated(*pod.Spec.ResourceClaims[0].ResourceClaimName) {
		}
	}
	r.waitFor(time.Minute, names...)
	if left := len(ended); left > 0 {
		t.Errorf("%d pods more than needed were preempted", left)
	}
}
