// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/autoscaler"
)

// clusterObjects is what cluster-autoscaler calls of its snapshot.
type clusterObjects interface {
	fwk.SharedDRAManager
	AddClaims(claims []*resourceapi.ResourceClaim) error
	PodClaims(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error)
	RemovePodOwnedClaims(pod *corev1.Pod)
	ReservePodClaims(pod *corev1.Pod) error
	UnreservePodClaims(pod *corev1.Pod) error
	NodeResourceSlices(node string) ([]*resourceapi.ResourceSlice, bool)
	AddNodeResourceSlices(node string, slices []*resourceapi.ResourceSlice) error
	RemoveNodeResourceSlices(node string)
	Fork()
	Commit()
	Revert()
}

var (
	_ clusterObjects             = &autoscaler.Snapshot{}
	_ schedplugin.ClaimChanges   = autoscaler.NewEmptySnapshot().ResourceClaims().(schedplugin.ClaimChanges)
	_ schedplugin.ExtendedClaims = autoscaler.NewEmptySnapshot().ResourceClaims().(schedplugin.ExtendedClaims)
)

// simulation is a cluster in the hands of cluster-autoscaler. Each method calls the framework and the
// snapshot in the order in which the method of cluster-autoscaler that it names does.
type simulation struct {
	name      string
	dra       clusterObjects
	framework framework.Framework
	// nodes is a list that does not change; behind its end there is room for the next one.
	nodes []*corev1.Node
	// hosts are the nodes by name, with what is on them.
	hosts map[string]host
	forks []fork
	// parallel has nodes filtered by several goroutines.
	parallel bool
}

// host is a node with its pods. It does not change once it is made.
type host struct {
	node *corev1.Node
	pods []*corev1.Pod
	info fwk.NodeInfo
}

// fork is what there was before: the list of nodes, and how to take back the changes of hosts.
type fork struct {
	nodes []*corev1.Node
	undo  []func()
}

// lister has what the framework sees of all nodes together: nothing, as no plugin asks.
type lister struct{ *internalcache.Snapshot }

// newSimulation runs one plugin, of those that deal with claims.
func newSimulation(t testing.TB, name, plugin string, dra clusterObjects) *simulation {
	t.Helper()
	return newSimulationWith(t, name, plugin, dra, schedplugin.New)
}

// newSimulationWith is newSimulation with another plugin under the name of Dray's.
func newSimulationWith(t testing.TB, name, plugin string, dra clusterObjects, dray frameworkruntime.PluginFactory) *simulation {
	t.Helper()
	registry := plugins.NewInTreeRegistry()
	registry[schedplugin.Name] = dray
	only := config.PluginSet{Enabled: []config.Plugin{{Name: plugin}}}
	profile := &config.KubeSchedulerProfile{SchedulerName: "simulation", Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		PreFilter: only, Filter: only, Reserve: only,
	}}
	if plugin == names.DynamicResources {
		args := &config.DynamicResourcesArgs{}
		configscheme.Scheme.Default(args)
		profile.PluginConfig = []config.PluginConfig{{Name: plugin, Args: args}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	made, err := frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)),
		frameworkruntime.WithSnapshotSharedLister(&lister{internalcache.NewEmptySnapshot()}),
		frameworkruntime.WithSharedDRAManager(dra),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); frameworkruntime.WaitForShutdown(made) })
	return &simulation{name: name, dra: dra, framework: made, hosts: make(map[string]host)}
}

// set changes what is known of a node, until the fork that is open is reverted. The zero host: nothing.
func (s *simulation) set(name string, now host) {
	before, found := s.hosts[name]
	if s.hosts[name] = now; now.node == nil {
		delete(s.hosts, name)
	}
	last := len(s.forks) - 1
	if last < 0 {
		return
	}
	s.forks[last].undo = append(s.forks[last].undo, func() {
		if s.hosts[name] = before; !found {
			delete(s.hosts, name)
		}
	})
}

// put puts a pod on a node: StorePodInfo.
func (s *simulation) put(pod *corev1.Pod, node string) error {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	now := s.hosts[node]
	now.pods, now.info = append(slices.Clip(now.pods), pod), now.info.Snapshot()
	now.info.AddPodInfo(info)
	s.set(node, now)
	return nil
}

// addNode is AddNodeInfo.
func (s *simulation) addNode(node *corev1.Node, published []*resourceapi.ResourceSlice) error {
	if err := s.dra.AddNodeResourceSlices(node.Name, published); err != nil {
		return err
	}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	s.nodes = append(s.nodes, node)
	s.set(node.Name, host{node: node, info: info})
	return nil
}

// found adds a node with pods, of which the snapshot knows already: SetClusterState.
func (s *simulation) found(node *corev1.Node, pods ...*corev1.Pod) {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	s.nodes = append(s.nodes, node)
	s.set(node.Name, host{node: node, pods: pods, info: info})
}

// removeNode is RemoveNodeInfo: the pods that are on it go, too.
func (s *simulation) removeNode(name string) {
	s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(node *corev1.Node) bool { return node.Name == name })
	gone := s.hosts[name]
	s.set(name, host{})
	s.dra.RemoveNodeResourceSlices(name)
	for _, pod := range gone.pods {
		s.dra.RemovePodOwnedClaims(pod)
	}
}

// scheduleAnywhere is SchedulePodOnAnyNodeMatching for all nodes, beginning with the first: it
// schedules a pod on the first node that has room. It returns the name of the node, empty if there
// is none.
func (s *simulation) scheduleAnywhere(ctx context.Context, pod *corev1.Pod) (string, error) {
	return s.schedule(ctx, pod, s.nodes...)
}

// schedule is SchedulePodOnAnyNodeMatching for some nodes, and SchedulePod for one.
func (s *simulation) schedule(ctx context.Context, pod *corev1.Pod, nodes ...*corev1.Node) (string, error) {
	state := framework.NewCycleState()
	if _, status, _ := s.framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return "", failure(status)
	}
	node, err := s.filter(ctx, state, pod, nodes)
	if err != nil || node == nil {
		return "", err
	}
	if status := s.framework.RunReservePluginsReserve(ctx, state, pod, node.Name); !status.IsSuccess() {
		return "", status.AsError()
	}
	if err := s.dra.ReservePodClaims(pod); err != nil {
		return "", err
	}
	if err := s.verify(pod, node); err != nil {
		return "", err
	}
	if _, err := s.dra.PodClaims(pod); err != nil { // for the PodInfo
		return "", err
	}
	return node.Name, s.put(pod, node.Name)
}

// failure is the error of a plugin, nil if it merely refused.
func failure(status *fwk.Status) error {
	if status.Code() == fwk.Error {
		return status.AsError()
	}
	return nil
}

// filter returns the first node that passes, nil if there is none.
func (s *simulation) filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []*corev1.Node) (*corev1.Node, error) {
	if s.parallel {
		return s.filterInParallel(ctx, state, pod, nodes)
	}
	for _, node := range nodes {
		status := s.framework.RunFilterPlugins(ctx, state, pod, s.hosts[node.Name].info)
		if status.IsSuccess() {
			return node, nil
		}
		if err := failure(status); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// filterInParallel asks about all nodes at once.
func (s *simulation) filterInParallel(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []*corev1.Node) (*corev1.Node, error) {
	statuses := make([]*fwk.Status, len(nodes))
	var group sync.WaitGroup
	for i, node := range nodes {
		info := s.hosts[node.Name].info
		group.Go(func() { statuses[i] = s.framework.RunFilterPlugins(ctx, state, pod, info) })
	}
	group.Wait()
	for i, status := range statuses {
		if status.IsSuccess() {
			return nodes[i], nil
		}
		if err := failure(status); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// verify is verifyScheduledPodResourceClaims: the claims of a pod have devices that its node reaches.
func (s *simulation) verify(pod *corev1.Pod, node *corev1.Node) error {
	claims, err := s.dra.PodClaims(pod)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			return fmt.Errorf("claim %s is not allocated", claim.Name)
		}
		selector := claim.Status.Allocation.NodeSelector
		if selector == nil {
			continue
		}
		if reaches, err := nodeaffinity.NewLazyErrorNodeSelector(selector).Match(node); err != nil || !reaches {
			return fmt.Errorf("claim %s is allocated, and not for node %s: %w", claim.Name, node.Name, err)
		}
	}
	return nil
}

// unschedule is UnschedulePod: it takes a pod off its node, and the pod is pending again.
func (s *simulation) unschedule(pod *corev1.Pod, node string) error {
	now := s.hosts[node]
	now.pods = slices.DeleteFunc(slices.Clone(now.pods), func(other *corev1.Pod) bool { return other.UID == pod.UID })
	now.info = framework.NewNodeInfo(now.pods...)
	now.info.SetNode(now.node)
	s.set(node, now)
	return s.dra.UnreservePodClaims(pod)
}

func (s *simulation) fork() {
	s.forks = append(s.forks, fork{nodes: s.nodes})
	s.dra.Fork()
}

func (s *simulation) commit() {
	last := len(s.forks) - 1
	if undo := s.forks[last].undo; last > 0 {
		s.forks[last-1].undo = append(s.forks[last-1].undo, undo...)
	}
	s.forks = s.forks[:last]
	s.dra.Commit()
}

func (s *simulation) revert() {
	last := len(s.forks) - 1
	for _, undo := range slices.Backward(s.forks[last].undo) {
		undo()
	}
	s.nodes, s.forks = slices.Clip(s.forks[last].nodes), s.forks[:last]
	s.dra.Revert()
}

// estimation is the work of BinpackingNodeEstimator.
type estimation struct {
	*simulation
	// template makes the n-th new node.
	template func(n int) (*corev1.Node, []*resourceapi.ResourceSlice)
	fresh    []*corev1.Node
	// used has the new nodes that have pods.
	used map[string]bool
}

// errNoRoom says that a new node has no room for a pod.
var errNoRoom = errors.New("a new node has no room")

// addFor returns how many nodes of a template groups of equal pods need: Estimate, without what it does
// besides. New nodes and pods stay where they are; the caller forks and reverts.
func (s *simulation) addFor(ctx context.Context, groups [][]*corev1.Pod, template func(n int) (*corev1.Node, []*resourceapi.ResourceSlice)) (int, error) {
	e := &estimation{simulation: s, template: template, used: make(map[string]bool)}
	for _, pods := range groups {
		pods, err := e.onExisting(ctx, pods)
		if err == nil {
			err = e.onNew(ctx, pods)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(e.used), nil
}

// onExisting is tryToScheduleOnExistingNodes. It returns the pods from the first on that has no place.
func (e *estimation) onExisting(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	for i, pod := range pods {
		last := e.last()
		where := ""
		var err error
		if last != nil && e.used[last.Name] {
			where, err = e.schedule(ctx, pod, last)
		}
		if err == nil && where == "" {
			where, err = e.schedule(ctx, pod, e.fresh[:max(0, len(e.fresh)-1)]...)
		}
		if err != nil || where == "" {
			return pods[i:], err
		}
		e.used[where] = true
	}
	return nil, nil
}

// onNew is tryToScheduleOnNewNodes.
func (e *estimation) onNew(ctx context.Context, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if last := e.last(); last != nil {
			where, err := e.schedule(ctx, pod, last)
			if err != nil {
				return err
			}
			if where != "" {
				e.used[where] = true
				continue
			}
			if !e.used[last.Name] {
				return errNoRoom
			}
		}
		node, published := e.template(len(e.fresh))
		if err := e.addNode(node, published); err != nil {
			return err
		}
		e.fresh = append(e.fresh, node)
		where, err := e.schedule(ctx, pod, node)
		if err != nil {
			return err
		}
		if where == "" {
			return errNoRoom
		}
		e.used[where] = true
	}
	return nil
}

func (e *estimation) last() *corev1.Node {
	if len(e.fresh) == 0 {
		return nil
	}
	return e.fresh[len(e.fresh)-1]
}

// drain takes the pods off a node and looks for other places: findPlaceFor. Nodes are tried from the
// one behind the node on. It returns where the pods went, and stops at the first that goes nowhere.
func (s *simulation) drain(ctx context.Context, name string) ([]string, error) {
	going := s.hosts[name]
	for _, pod := range going.pods {
		if err := s.unschedule(pod, name); err != nil {
			return nil, err
		}
	}
	at := slices.Index(s.nodes, going.node)
	others := slices.Concat(s.nodes[at+1:], s.nodes[:at])
	published, _ := s.dra.NodeResourceSlices(name)
	s.removeNode(name)
	if err := s.addNode(going.node, published); err != nil { // it stays, tainted, until its pods are gone
		return nil, err
	}
	var places []string
	for _, pod := range going.pods {
		where, err := s.schedule(ctx, pod, others...)
		if err != nil {
			return nil, err
		}
		if where == "" {
			return places, nil
		}
		places = append(places, where)
		reached := slices.IndexFunc(others, func(node *corev1.Node) bool { return node.Name == where })
		others = slices.Concat(others[reached+1:], others[:reached+1])
	}
	s.removeNode(name)
	return places, nil
}
