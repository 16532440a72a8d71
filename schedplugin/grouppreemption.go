package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/model"
	"github.com/dray-project/dray/schedplugin/internal/whatif"
)

// Preemption for a group asks what would be without other pods in its own way: it takes all
// pods of lower priority off their nodes, schedules the group anew from PreFilter on, and then
// puts one pod after the other back, through AddPod. What these pods hold has to be free in
// such a cycle, and only there.

// suppose has the cycle of a group see the devices free of pods which preemption took off
// their nodes for the time being.
func (p *Plugin) suppose(c *cycle, view *model.View) (*model.View, error) {
	if !c.grouped || !p.switches.Preemption() {
		return view, nil
	}
	p.residentsOf(c)
	absent := p.residents.Absent()
	if len(absent) == 0 || !p.tentative() {
		return view, nil
	}
	supposed := &whatif.Case{}
	if err := supposed.Begin(view); err != nil {
		return nil, err
	}
	for _, pod := range absent {
		supposed.Remove(pod, p.source.Of(pod), c.own())
	}
	c.removed = supposed
	return view.As(supposed.Ledger()), nil
}

// tentative reports whether the scheduler's snapshot is being modified for a what-if. There is
// no other way to ask than trying to begin one, which it does not allow twice.
func (p *Plugin) tentative() bool {
	lister := p.handle.MutableSnapshotSharedLister()
	if lister == nil {
		return false
	}
	if err := lister.StartMutations(); err != nil {
		return true
	}
	if err := lister.EndMutations(); err != nil {
		klog.ErrorS(err, "The snapshot of the scheduler could not be restored")
	}
	return false
}

// newWhatIf begins a what-if, without the pods that are removed already.
func (c *cycle) newWhatIf() *whatif.Case {
	if c.removed == nil {
		return &whatif.Case{}
	}
	return c.removed.Clone()
}

// awaitsGroup reports whether the pods of a group that lack devices only have to wait for
// those of pods which were preempted for the group.
func (p *Plugin) awaitsGroup(ctx context.Context, cycles *groupCycle, pods []*corev1.Pod) bool {
	if cycles == nil {
		return false
	}
	waits := false
	for _, pod := range pods {
		c := cycles.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		if c == nil || len(c.refusals.List()) == 0 {
			continue
		}
		if !p.comesFreeFor(ctx, c, pod) {
			return false
		}
		waits = true
	}
	return waits
}

// nominations of the pods of a group, as they are.
func (p *Plugin) nominations(cycles *groupCycle, pods []*corev1.Pod) *fwk.PodGroupPostFilterResult {
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: make(map[types.NamespacedName]*fwk.NominatingInfo)}
	for _, pod := range pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		c := cycles.pods[name]
		if c == nil {
			continue
		}
		if nodeInfo := p.nominated(c, pod); nodeInfo != nil {
			result.NominatingInfos[name] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nodeInfo.Node().Name}
		}
	}
	return result
}
