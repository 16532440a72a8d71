// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	alphaapi "k8s.io/api/scheduling/v1alpha3"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

// compositeRig is a scheduler with a composite group of the groups one and gang, of two pods each that want a whole GPU or else a half. With a
// rack, all pods of a group go to one.
func compositeRig(t *testing.T, inRacks bool, objects ...runtime.Object) (r *rig, pods []*corev1.Pod, names []string) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, map[featuregate.Feature]bool{
		kubefeatures.GenericWorkload: true, kubefeatures.TopologyAwareWorkloadScheduling: true, kubefeatures.CompositePodGroup: true,
		kubefeatures.DRAPartitionableDevices: true, kubefeatures.DRAPrioritizedList: true,
	})
	objects = append(objects, gpuClass(), &alphaapi.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "both", UID: "both"},
		Spec: alphaapi.CompositePodGroupSpec{
			SchedulingPolicy: alphaapi.CompositePodGroupSchedulingPolicy{Gang: &alphaapi.CompositeGangSchedulingPolicy{MinGroupCount: 2}},
		},
	})
	for _, group := range []string{"one", "gang"} {
		spec := schedulingapi.PodGroupSpec{
			ParentCompositePodGroupName: ptr.To("both"),
			SchedulingPolicy:            schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: 2}},
		}
		if inRacks {
			spec.SchedulingConstraints = &schedulingapi.PodGroupSchedulingConstraints{Topology: []schedulingapi.TopologyConstraint{{Key: rack}}}
		}
		objects = append(objects, &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: group, UID: types.UID(group)}, Spec: spec})
		for i := range 2 {
			name := fmt.Sprintf("%s-%d", group, i)
			pod := podWith(name, "of-"+name)
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group)}
			objects, pods, names = append(objects, partClaim("of-"+name, "whole", "half")), append(pods, pod), append(names, name)
		}
	}
	r, err := newScheduler(t, dray, objects...)
	r.must(err)
	return r, pods, names
}

// The groups of a composite group are planned one after the other, each in what the one before has left.
func TestGroupsOfAGroupArePlanned(t *testing.T) {
	r, pods, names := compositeRig(t, true, append(append(parts("a"), parts("b")...), racked("a", "one"), racked("b", "two"))...)
	r.run()
	r.create(pods...)
	r.waitFor(time.Minute, names...)
	if one, other := r.pod("one-0").Spec.NodeName, r.pod("gang-0").Spec.NodeName; one == other || one != r.pod("one-1").Spec.NodeName || other != r.pod("gang-1").Spec.NodeName {
		t.Errorf("the groups are on nodes %s and %s", one, other)
	}
}

// They are not planned together: the first one takes two whole GPUs, where each could do with one. The condition of the other one says so, and
// nothing is asked while nothing changes.
func TestGroupsOfAGroupAreNotPlannedTogether(t *testing.T) {
	r, pods, names := compositeRig(t, false, append(append(parts("a"), parts("b")...), roomy("a"), roomy("b"), roomy("c"))...)
	before := groupPlans(t)
	r.run()
	r.create(pods...)
	r.conditionSays("PodGroup one: together, 0 of 2 pods get devices and the group needs 2")
	r.conditionSays("the groups of a CompositePodGroup are planned one after the other, not together")
	attempts := r.attemptsOf("one-0") // at the start before the plans, at the end after them: they go on meanwhile
	plans := groupPlans(t) - before
	eventually(t, func() error {
		if tried := r.attemptsOf("one-0") - attempts; tried < 20 {
			return fmt.Errorf("%d attempts", tried)
		}
		return nil
	})
	more := groupPlans(t) - before - plans
	if tried := r.attemptsOf("one-0") - attempts; more > tried+2 {
		t.Errorf("%d plans in %d attempts: both groups were planned", more, tried)
	}
	for _, slice := range parts("c") {
		r.addSlice(slice.(*resourceapi.ResourceSlice))
	}
	r.waitFor(time.Minute, names...)
}
