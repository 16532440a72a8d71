// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"runtime"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// Here is what leans on details of kube-scheduler that its interfaces do not promise, with the reason. Look through it when
// kube-scheduler is updated. In packages of their own are:
//
//	internal/nodeallocatable  runs an in-tree plugin, and writes cycle state under its name: NodeResourcesFit takes what
//	                          devices need of a node from there, and has no other source
//	internal/binding          assumecache.ErrNotFound: a claim that was created may not be in the cache yet, and the
//	                          manager returns the error of its cache
//	internal/preempt          which pods preemption for a group took off their nodes: those that are missing from a snapshot that
//	                          is being modified (tentative, below), and nobody says for what it is modified
//	internal/wake             of a pod that preempts others, the queue lets the event pass that a pod left its node, and no
//	                          other one, until DefaultPreemption has evicted them
//	internal/model, refusal   one manager stands for all profiles of a scheduler: it is the only object that they share
//	cmd/dray-scheduler/shadow the type of the snapshot: what another scheduler decides is put into it, which no interface
//	                          allows outside of a cycle

// inTreeIndexPrefix is how the index begins that the in-tree plugin adds to the informer of pods in
// each profile, before it is used. There is no other trace of it that profiles share.
const inTreeIndexPrefix = "schedulerPodResourceClaim-"

// hasInTreePlugin finds out whether the in-tree plugin is in use in any profile of the scheduler. It must not be called while pods are being scheduled.
func hasInTreePlugin(handle fwk.Handle) bool {
	for name := range handle.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().GetIndexers() {
		if strings.HasPrefix(name, inTreeIndexPrefix) {
			return true
		}
	}
	return false
}

// hasInformers reports whether what a manager has of claims and slices is what the informers of the handle have. The manager of
// a simulator has its own, beside the same informers, and there is no way to ask for that.
func hasInformers(dra fwk.SharedDRAManager) bool {
	_, own := dra.(*dynamicresources.DefaultDRAManager)
	return own
}

// hasQueue finds out whether there is a scheduling queue. A simulator has none: its handle calls a method of nil, as
// there is no way to ask whether it has one. Any other panic is not for here.
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

// nominatedTo asks the scheduling queue which pods are nominated to a node.
func (p *Plugin) nominatedTo(node string) []fwk.PodInfo {
	if !p.queueExists() {
		return nil
	}
	return p.handle.NominatedPodsForNode(node)
}

// snapshotModified reports whether the scheduler's snapshot is being modified for a what-if. There is
// no other way to ask than trying to begin one, which it does not allow twice.
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

// nodesInPlacement are the nodes on which the pods of a group are being tried: PreFilter is called with all nodes, whatever the
// placement. Only the scheduler's own snapshot tells. Others have no placements.
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

// podGroupPostFiltersAfter are the plugins that the framework asks after this one when a group failed. No interface of plugins has them; without
// them, there are none.
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
