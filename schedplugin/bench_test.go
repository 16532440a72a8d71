package schedplugin

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// filtering is what both plugins are measured at.
type filtering interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// BenchmarkCycle runs PreFilter, and Filter on all nodes, for a pod in a cluster in which
// most devices are in use, with the in-tree plugin and with this one.
func BenchmarkCycle(b *testing.B) {
	const nodes, devices = 1000, 8
	objects := []runtime.Object{gpuClass(), gpuClaim("wanted", 2), gpuClaim("huge", devices+1)}
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		objects = append(objects, node(name), gpus(name, devices))
		for d := range devices - 1 - i%3 {
			objects = append(objects, held(gpuClaim(fmt.Sprintf("%s-%d", name, d), 1), name, fmt.Sprint("gpu-", d)))
		}
	}
	w := newWorld(b, setting{objects: objects})
	inTree, err := dynamicresources.New(context.Background(), &config.DynamicResourcesArgs{}, w.plugin.handle, everything)
	if err != nil {
		b.Fatal(err)
	}
	for name, plugin := range map[string]filtering{"in-tree": inTree.(filtering), "dray": w.plugin} {
		for _, pod := range []*corev1.Pod{podWith("some-fit", "wanted"), podWith("none-fits", "huge")} {
			cycle := func() {
				state := framework.NewCycleState()
				if _, status := plugin.PreFilter(w.ctx, state, pod, w.nodes); !status.IsSuccess() {
					b.Fatal(status)
				}
				for _, info := range w.nodes {
					if status := plugin.Filter(w.ctx, state, pod, info); status.Code() == fwk.Error {
						b.Fatal(status)
					}
				}
			}
			cycle() // the first pod of a scheduler
			b.Run(pod.Name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					cycle()
				}
			})
		}
	}
}
