// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"
)

// unplanned is the plugin without plans for groups: PreFilter takes each pod for one by itself.
type unplanned struct{ *Plugin }

// PreFilter implements PreFilterPlugin.
func (u unplanned) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return u.Plugin.PreFilter(ctx, alone{state}, pod, nodes)
}

// alone is the state of a pod without that of its group.
type alone struct{ fwk.CycleState }

// GetPodGroupSchedulingCycle implements CycleState.
func (alone) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return nil }

// BenchmarkGroupsOneByOne is what groups cost whose pods get devices one after the other: with the in-tree plugin, with this one, and with
// this one without a look at plans. It is all that the scheduler does, from the queue to the binding, in an API server in memory.
func BenchmarkGroupsOneByOne(b *testing.B) {
	featuregatetesting.SetFeatureGateDuringTest(b, utilfeature.DefaultFeatureGate, kubefeatures.GenericWorkload, true)
	const groups, pods, nodes = 4, 32, 128
	for _, kind := range []struct {
		name, profile string
		plugin        frameworkruntime.PluginFactory
	}{
		{"in-tree", inTree, New}, {"dray", dray, New},
		{"unplanned", dray, func(ctx context.Context, args apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := New(ctx, args, handle)
			if err != nil {
				return nil, err
			}
			return unplanned{plugin.(*Plugin)}, nil
		}},
	} {
		b.Run(fmt.Sprintf("%s/groups=%d/pods=%d/nodes=%d", kind.name, groups, pods, nodes), func(b *testing.B) {
			var spent time.Duration
			var made uint64
			for b.Loop() {
				cpu, allocs := groupsOneByOne(b, kind.profile, kind.plugin, groups, pods, nodes)
				spent, made = spent+cpu, made+allocs
			}
			b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N*groups), "cpu-ms/group")
			b.ReportMetric(float64(made)/float64(b.N*groups), "allocs/group")
		})
	}
}

func groupsOneByOne(b *testing.B, profile string, plugin frameworkruntime.PluginFactory, groups, pods, nodes int) (cpu time.Duration, allocs uint64) {
	objects := []apiruntime.Object{gpuClass()}
	for n := range nodes {
		name := fmt.Sprint("node-", n)
		objects = append(objects, roomy(name), gpus(name, 1))
	}
	var names []string
	var waiting []*corev1.Pod
	for g := range groups {
		group := fmt.Sprint("gang-", g)
		objects = append(objects, &schedulingapi.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: group, UID: types.UID(group)},
			Spec:       schedulingapi.PodGroupSpec{SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}}},
		})
		for i := range pods {
			name := fmt.Sprintf("%s-%d", group, i)
			pod := podWith(name, "of-"+name)
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group)}
			objects, waiting, names = append(objects, gpuClaim("of-"+name, 1)), append(waiting, pod), append(names, name)
		}
	}
	r, err := newSchedulerWith(b, profile, fake.NewSimpleClientset(objects...), plugin)
	r.must(err)
	for g := range groups {
		r.create(waiting[g*pods : (g+1)*pods]...)
		r.seen(waiting[g*pods : (g+1)*pods])
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	r.run()
	r.waitFor(2*time.Minute, names...)
	cpu = cpuTime() - start
	runtime.ReadMemStats(&after)
	for _, name := range names {
		if attempts := r.attemptsOf(name); attempts != 1 {
			b.Fatalf("pod %s was tried %d times", name, attempts)
		}
	}
	return cpu, after.Mallocs - before.Mallocs
}
