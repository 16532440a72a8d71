// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// Shadow watches the pods of its profiles, which another scheduler schedules.
type Shadow struct {
	sched  *scheduler.Scheduler
	judges map[string]*judge // by schedulerName
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	source claimstate.Source
	// settle is the time within which a change of a device can explain a difference.
	settle time.Duration
	report *Report

	mu      sync.Mutex
	cluster *cluster
	// fresh has the claims that were allocated since the start, and the UID of the pod for which they were.
	fresh map[types.UID]types.UID
	// refused are the unschedulable pods that will be reviewed, or were.
	refused sets.Set[types.UID]
	// touched is the time at which a device was last released. Devices are without requests.
	touched map[device]time.Time
	open    []*disagreement
}

// disagreement says that Dray would have taken other devices. It becomes a difference unless one of them is
// allocated or released before the time until.
type disagreement struct {
	until  time.Time
	wanted sets.Set[device] // without requests
	text   string
}

// New makes a Shadow of a scheduler with these profiles, all of which must enable Dray. It watches the cluster
// until the context ends. The client should be wrapped by ReadOnly. settle is the time within which two events
// count as concurrent.
func New(ctx context.Context, client kubernetes.Interface, profiles []config.KubeSchedulerProfile, settle time.Duration) (*Shadow, error) {
	s := &Shadow{
		judges:  make(map[string]*judge),
		settle:  settle,
		report:  newReport(time.Now()),
		cluster: newCluster(),
		fresh:   make(map[types.UID]types.UID),
		refused: sets.New[types.UID](),
		touched: make(map[device]time.Time),
	}
	factory := scheduler.NewInformerFactory(client, 0, nil)
	// The broadcaster has no listener, so events are dropped.
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	var err error
	s.sched, err = scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{schedplugin.Name: s.plugin}))
	if err != nil {
		return nil, err
	}
	if len(s.judges) != len(profiles) {
		return nil, fmt.Errorf("%d of %d profiles have the plugin %s, want all", len(s.judges), len(profiles), schedplugin.Name)
	}
	return s, s.follow(ctx, factory)
}

// plugin is the factory of the plugin. It also makes the judge for the pods of the profile.
func (s *Shadow) plugin(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if s.cluster.SharedDRAManager == nil {
		s.cluster.SharedDRAManager = handle.SharedDRAManager()
		s.source = claimstate.Source{DRA: s.cluster, Extended: true}
	}
	judge, err := newJudge(ctx, args, handle, s.cluster)
	if err != nil {
		return nil, err
	}
	s.judges[handle.ProfileName()] = judge
	return schedplugin.New(ctx, args, handle)
}

// follow starts the informers, and returns once their caches have synced.
func (s *Shadow) follow(ctx context.Context, factory informers.SharedInformerFactory) error {
	claims, pods := factory.Resource().V1().ResourceClaims().Informer(), factory.Core().V1().Pods()
	s.pods, s.nodes = pods.Lister(), factory.Core().V1().Nodes().Lister()
	registered, err := claims.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(claim any, initial bool) { s.claimChanged(ctx, nil, claim, initial) },
		UpdateFunc: func(before, after any) { s.claimChanged(ctx, before, after, false) },
		DeleteFunc: func(claim any) { s.claimChanged(ctx, claim, nil, false) },
	})
	if err != nil {
		return fmt.Errorf("follow resource claims: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		return ctx.Err()
	}
	if err := s.sched.WaitForHandlersSync(ctx); err != nil {
		return err
	}
	// Pods come last, because they are compared with the claims that are known by then.
	_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { s.podChanged(ctx, pod) },
		UpdateFunc: func(_, pod any) { s.podChanged(ctx, pod) },
		DeleteFunc: s.podDeleted,
	})
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	return nil
}

// Report returns the results so far. Disagreements of the last settling time are not counted yet, unless end is
// set: then no more events will explain them.
func (s *Shadow) Report(end bool) *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if end {
		now = now.Add(s.settle)
	}
	s.expire(now)
	return s.report
}

// claimChanged handles an event of a claim. before is nil for a new claim, after for a deleted one.
func (s *Shadow) claimChanged(ctx context.Context, before, after any, initial bool) {
	old, updated := claimIn(before), claimIn(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	s.touch(devicesOf(old), devicesOf(updated))
	if updated == nil {
		if old != nil {
			delete(s.cluster.claims, nameOf(old))
			delete(s.fresh, old.UID)
		}
		return
	}
	s.cluster.claims[nameOf(updated)] = updated
	if initial || updated.Status.Allocation == nil || old != nil && old.Status.Allocation != nil {
		return
	}
	if len(updated.Status.ReservedFor) != 1 || updated.Status.ReservedFor[0].Resource != "pods" {
		return // claims of groups are not compared
	}
	consumer := updated.Status.ReservedFor[0]
	s.fresh[updated.UID] = consumer.UID
	if pod, err := s.pods.Pods(updated.Namespace).Get(consumer.Name); err == nil {
		s.consider(ctx, pod)
	}
}

// claimIn returns the claim of an event, nil if there is none.
func claimIn(object any) *resourceapi.ResourceClaim {
	if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	claim, _ := object.(*resourceapi.ResourceClaim)
	return claim
}

// touch records devices that were allocated or released. The caller holds the lock.
func (s *Shadow) touch(before, after sets.Set[device]) {
	places := func(devices sets.Set[device]) sets.Set[device] {
		at := sets.New[device]()
		for d := range devices {
			at.Insert(d.place())
		}
		return at
	}
	old, updated := places(before), places(after)
	for d := range old.Difference(updated) {
		s.touched[d] = time.Now()
	}
	changed := old.SymmetricDifference(updated)
	if changed.Len() == 0 {
		return
	}
	var left []*disagreement
	for _, open := range s.open {
		if open.wanted.HasAny(changed.UnsortedList()...) {
			s.report.add(Concurrent, "")
			continue
		}
		left = append(left, open)
	}
	s.open = left
}

// expire counts disagreements that no event explained in time. The caller holds the lock.
func (s *Shadow) expire(now time.Time) {
	for len(s.open) > 0 && !now.Before(s.open[0].until) {
		s.report.add(OtherDevices, s.open[0].text)
		klog.InfoS("Shadow: other devices", "difference", s.open[0].text)
		s.open = s.open[1:]
	}
	for d, at := range s.touched {
		if now.Sub(at) > s.settle {
			delete(s.touched, d)
		}
	}
}

// podChanged compares a pod that was bound, or that is unschedulable.
func (s *Shadow) podChanged(ctx context.Context, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || s.judges[pod.Spec.SchedulerName] == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	s.consider(ctx, pod)
	if unschedulable(pod) && s.wantsDevices(pod) && pod.Spec.SchedulingGroup == nil && !s.refused.Has(pod.UID) {
		s.refused.Insert(pod.UID)
		time.AfterFunc(s.settle, func() { s.reviewRefusal(ctx, pod.Namespace, pod.Name, pod.UID) })
	}
}

func (s *Shadow) podDeleted(object any) {
	if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused.Delete(pod.UID)
	}
}

func (s *Shadow) wantsDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || s.source.AsksForExtended(pod)
}

func unschedulable(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" || pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled {
			return condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

// consider compares the devices of a pod once all its claims are allocated and the node is known. The caller
// holds the lock.
func (s *Shadow) consider(ctx context.Context, pod *corev1.Pod) {
	judge := s.judges[pod.Spec.SchedulerName]
	if judge == nil || pod.Status.ExtendedResourceClaimStatus == nil && s.source.AsksForExtended(pod) {
		return
	}
	known, named := s.source.Of(pod), 0
	for range resourceclaim.PodClaims(pod) {
		named++
	}
	if len(known) != named {
		return // a claim is not known yet, or was deleted
	}
	var claims []*resourceapi.ResourceClaim
	for _, claim := range known {
		if claim.Status.Allocation == nil || claim.DeletionTimestamp != nil {
			return // the claim is not allocated yet, or is being deleted
		}
		if s.fresh[claim.UID] == pod.UID && len(claim.Status.ReservedFor) == 1 {
			claims = append(claims, claim)
		}
	}
	name := nodeOf(pod, claims)
	if len(claims) == 0 || name == "" {
		return
	}
	for _, claim := range claims {
		delete(s.fresh, claim.UID)
	}
	node, err := s.nodes.Get(name)
	if err != nil {
		return // the node was deleted
	}
	s.compare(ctx, judge, pod, node, claims)
}

// nodeOf returns the node of a pod. The node selector of an allocation may name it before spec.nodeName does.
func nodeOf(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	for _, claim := range claims {
		selector := claim.Status.Allocation.NodeSelector
		if selector == nil || len(selector.NodeSelectorTerms) != 1 || len(selector.NodeSelectorTerms[0].MatchFields) != 1 {
			continue
		}
		if field := selector.NodeSelectorTerms[0].MatchFields[0]; field.Key == nameField && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}

// nameField is the field by which allocations select a node.
const nameField = "metadata.name"

func (s *Shadow) compare(ctx context.Context, judge *judge, pod *corev1.Pod, node *corev1.Node, claims []*resourceapi.ResourceClaim) {
	theirs := devicesOf(claims...)
	ours, status := judge.decide(ctx, pod, node, claims)
	who := fmt.Sprintf("pod %s on node %s", klog.KObj(pod), node.Name)
	switch {
	case status.IsRejected():
		s.differ(Refused, fmt.Sprintf("%s: Dray refuses it: %s", who, status.Message()))
		return
	case !status.IsSuccess():
		s.differ(Failed, fmt.Sprintf("%s: %s", who, status.Message()))
		return
	case ours.Equal(theirs):
		s.report.add(SameDevices, "")
		return
	}
	wanted := sets.New[device]()
	for d := range ours.Difference(theirs) {
		wanted.Insert(d.place())
		if _, recently := s.touched[d.place()]; recently {
			s.report.add(Concurrent, "")
			return
		}
	}
	s.open = append(s.open, &disagreement{
		until: time.Now().Add(s.settle), wanted: wanted,
		text: fmt.Sprintf("%s: it has %s, Dray would take %s", who, listed(theirs), listed(ours)),
	})
}

// differ records a difference that needs no settling time.
func (s *Shadow) differ(outcome Outcome, text string) {
	klog.InfoS("Shadow: difference", "outcome", outcome, "difference", text)
	s.report.add(outcome, text)
}

// reviewRefusal searches for a node with Dray, if the pod is still unschedulable.
func (s *Shadow) reviewRefusal(ctx context.Context, namespace, name string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, err := s.pods.Pods(namespace).Get(name)
	if ctx.Err() != nil || err != nil || pod.UID != uid || !unschedulable(pod) {
		s.refused.Delete(uid)
		return
	}
	node, err := s.schedule(ctx, pod)
	var unfit *framework.FitError
	switch {
	case err == nil:
		s.differ(Accepted, fmt.Sprintf("pod %s is unschedulable, Dray finds node %s", klog.KObj(pod), node))
	case errors.As(err, &unfit) || errors.Is(err, scheduler.ErrNoNodesAvailable):
		s.report.add(SameRefusal, "")
	default:
		s.differ(Failed, fmt.Sprintf("pod %s: %v", klog.KObj(pod), err))
	}
}

// schedule searches for a node for a pod with all plugins of its profile.
func (s *Shadow) schedule(ctx context.Context, pod *corev1.Pod) (string, error) {
	profile := s.sched.Profiles[pod.Spec.SchedulerName]
	handle, ok := profile.(fwk.Handle)
	if !ok {
		return "", fmt.Errorf("the framework is a %T", profile)
	}
	snapshot, ok := handle.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return "", fmt.Errorf("the snapshot is a %T", handle.SnapshotSharedLister())
	}
	if err := s.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return "", err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", err
	}
	result, err := s.sched.SchedulePod(ctx, profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	return result.SuggestedHost, err
}

// listed formats devices, sorted.
func listed(devices sets.Set[device]) string {
	names := sets.New[string]()
	for d := range devices {
		names.Insert(d.String())
	}
	return fmt.Sprint(sets.List(names))
}
