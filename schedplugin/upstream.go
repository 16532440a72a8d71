// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// This file has the code that depends on details of kube-scheduler that no interface promises, with the reason. Check it with each
// update of kube-scheduler. In other packages are:
//
//	internal/nodeallocatable  runs an in-tree plugin, and writes cycle state under its name: NodeResourcesFit takes what
//	                          devices need of a node from there, and has no other source
//	internal/binding          assumecache.ErrNotFound: a claim that was created may not be in the cache yet, and the
//	                          manager returns the error of its cache
//	internal/preempt          which pods preemption for a group removed: those that are missing from a snapshot that is being
//	                          modified (snapshotModified, below). No interface says why it is modified
//	internal/wake             until DefaultPreemption has evicted the victims of a pod, the queue accepts only the event that
//	                          a pod left its node
//	internal/model, refusal   the manager identifies the scheduler: it is the only object that all its profiles share
//	cmd/dray-scheduler/shadow the type of the snapshot: decisions of another scheduler are put into it, which no interface
//	                          allows outside of a cycle

// inTreeIndexPrefix begins the name of an index that the in-tree plugin adds to the informer of pods in each
// profile. Nothing else that profiles share shows that the plugin is there.
const inTreeIndexPrefix = "schedulerPodResourceClaim-"

// hasInTreePlugin reports whether the in-tree plugin is enabled in any profile of the scheduler. It must not be called while pods are being scheduled.
func hasInTreePlugin(handle fwk.Handle) bool {
	for name := range handle.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().GetIndexers() {
		if strings.HasPrefix(name, inTreeIndexPrefix) {
			return true
		}
	}
	return false
}

// hasInformers reports whether a manager gets its claims and slices from the informers of the handle. The
// manager of a simulator does not, and no interface tells.
func hasInformers(dra fwk.SharedDRAManager) bool {
	_, own := dra.(*dynamicresources.DefaultDRAManager)
	return own
}

// hasQueue reports whether there is a scheduling queue. In a simulator there is none, and the handle calls a
// method on nil. No interface tells, so the panic is recovered. Any other panic is passed on.
func (p *Plugin) hasQueue() (has bool) {
	defer func() {
		if err := recover(); err != nil {
			if _, ofNil := err.(runtime.Error); !ofNil {
				panic(err)
			}
			has = false
		}
	}()
	p.handle.NominatedPodsForNode("")
	return true
}

// nominatedTo returns the pods that the scheduling queue has nominated to a node.
func (p *Plugin) nominatedTo(node string) []fwk.PodInfo {
	if !p.queueExists() {
		return nil
	}
	return p.handle.NominatedPodsForNode(node)
}

// activate has a pod tried again, after its backoff if it is being tried now. Without a queue, nobody tries pods again.
func (p *Plugin) activate(logger klog.Logger, pod *corev1.Pod) {
	if p.queueExists() {
		p.handle.Activate(logger, map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
}

// snapshotModified reports whether the scheduler's snapshot is being modified for a what-if. It finds out by
// starting a modification, which fails if there is one already.
func (p *Plugin) snapshotModified() bool {
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

// preemptedInPreBind reports whether a pod was preempted while the context of its PreBind was in use. The framework does not delete such a
// pod, but cancels the context, and tries the pod again. Only the text of the cause tells that from other reasons to cancel.
func preemptedInPreBind(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && strings.HasPrefix(cause.Error(), "preempted by ")
}

// nodesInPlacement returns the nodes of the placement in which a group is being tried. PreFilter gets all nodes, whatever
// the placement. Only the scheduler's own snapshot tells them. Other snapshots have no placements.
func (p *Plugin) nodesInPlacement(all []fwk.NodeInfo) []fwk.NodeInfo {
	snapshot, limited := p.handle.SnapshotSharedLister().(interface {
		ListNodesInPlacement() ([]fwk.NodeInfo, error)
	})
	if !limited || !p.features.EnableTopologyAwareWorkloadScheduling {
		return all
	}
	nodes, err := snapshot.ListNodesInPlacement()
	if err != nil {
		return all
	}
	return nodes
}

// podGroupPostFiltersAfter returns the PodGroupPostFilter plugins that run after this one. No interface for
// plugins lists them. Where the handle does not either, there are none.
func (p *Plugin) podGroupPostFiltersAfter() []fwk.PodGroupPostFilterPlugin {
	framework, known := p.handle.(interface {
		PodGroupPostFilterPlugins() []fwk.PodGroupPostFilterPlugin
	})
	if !known {
		return nil
	}
	plugins := framework.PodGroupPostFilterPlugins()
	at := slices.IndexFunc(plugins, func(plugin fwk.PodGroupPostFilterPlugin) bool { return plugin.Name() == Name })
	return plugins[at+1:]
}
