// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/binding"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/model"
	"github.com/dray-project/dray/schedplugin/internal/podgroup"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
	"github.com/dray-project/dray/schedplugin/internal/wake"
)

// Name is the name of the plugin in scheduler configurations.
const Name = "Dray"

// programCacheSize is how many compiled CEL expressions are cached.
const programCacheSize = 1024

// Plugin implements the extension points of the scheduling framework. It is safe for
// concurrent use, as the framework requires.
type Plugin struct {
	features feature.Features
	args     *config.DrayArgs
	handle   fwk.Handle
	dra      fwk.SharedDRAManager
	source   claimstate.Source
	// core allocates devices. whatIfCore answers what-ifs: an allocator remembers the last answer for each
	// node, and those of what-ifs would replace the real ones.
	core, whatIfCore *allocator.Allocator
	// retryCores have larger budgets, by budget level minus 1. They are for pods whose search was given up.
	retryCores [maxBudgetLevel]*allocator.Allocator
	// model is nil if the feature DynamicResourceAllocation is off. Then no extension point does anything.
	model        *model.Model
	writer       *binding.Writer
	pods         claimstate.Index
	hints        *wake.Hints
	eventLimiter *refusal.EventLimiter
	// accounting finds the devices that stand for resources of their node, such as CPU.
	accounting accounting
	// preemption says which devices are in use if pods are added or removed, as AddPod and RemovePod do.
	preemption *preempt.Preemption
	endings    *refusal.Endings
	// stopped returns an error once the scheduler shuts down.
	stopped func() error
	// queueExists reports whether the handle has a scheduling queue, and inTreeInUse whether the in-tree plugin is in use.
	// Both are evaluated once, at the first pod: programs that create frameworks one by one may never call EventsToRegister.
	queueExists, inTreeInUse func() bool
	// groups plans devices for pods that are scheduled together.
	groups *podgroup.Groups
	// reasons caches the short reasons for which nodes are refused.
	reasons refusal.Reasons
}

var (
	_ fwk.PreEnqueuePlugin         = &Plugin{}
	_ fwk.EnqueueExtensions        = &Plugin{}
	_ fwk.PreFilterPlugin          = &Plugin{}
	_ fwk.FilterPlugin             = &Plugin{}
	_ fwk.PostFilterPlugin         = &Plugin{}
	_ fwk.PodGroupPostFilterPlugin = &Plugin{}
	_ fwk.ScorePlugin              = &Plugin{}
	_ fwk.SignPlugin               = &Plugin{}
	_ fwk.PreFilterExtensions      = &Plugin{}
	_ fwk.ReservePlugin            = &Plugin{}
	_ fwk.PreBindPlugin            = &Plugin{}
)

// New makes the plugin for one scheduler profile, with the feature gates of the process.
// The arguments are config.DrayArgs as the scheduler configuration has them, or nil.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return NewWithFeatures(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
}

// NewWithFeatures is New with the feature gates that the caller gives.
func NewWithFeatures(ctx context.Context, args runtime.Object, handle fwk.Handle, features feature.Features) (*Plugin, error) {
	decoded, err := config.Decode(args, features)
	if err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	if !features.EnableDynamicResourceAllocation {
		return &Plugin{args: decoded}, nil
	}
	switches, err := config.OpenSwitches(decoded.SwitchesFile)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	if hasInTreePlugin(handle) {
		return nil, errInTreePlugin
	}
	pods, err := claimstate.NewIndex(handle)
	if err != nil {
		return nil, err
	}
	slices, err := wake.NewSlices(handle, hasInformers(handle.SharedDRAManager()))
	if err != nil {
		return nil, err
	}
	metrics.Register()
	state, err := newModel(ctx, handle, coreFeatures(features).PoolGates())
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		features: features,
		args:     decoded,
		handle:   handle,
		dra:      handle.SharedDRAManager(),
		source: claimstate.Source{
			DRA:       handle.SharedDRAManager(),
			Workloads: features.EnableDRAWorkloadResourceClaims,
			Extended:  features.EnableDRAExtendedResource,
		},
		model:        state,
		pods:         pods,
		endings:      refusal.NewEndings(),
		stopped:      ctx.Err,
		eventLimiter: refusal.NewEventLimiter(ctx, handle.SharedDRAManager(), decoded.Events),
		reasons:      refusal.NewReasons(),
	}
	p.hints = &wake.Hints{Source: p.source, Pods: pods, Endings: p.endings, Slices: slices, Changed: state.Changed}
	watch, err := p.watchForeign(ctx)
	if err != nil {
		return nil, err
	}
	p.writer = &binding.Writer{
		Foreign:     watch,
		Client:      handle.ClientSet(),
		DRA:         p.dra,
		Source:      p.source,
		Model:       state,
		Conditions:  p.bindingConditions(),
		Timeout:     decoded.BindingTimeout.Duration,
		Unconfirmed: p.recordUnconfirmed,
		Profile:     handle.ProfileName(),
	}
	p.queueExists, p.inTreeInUse = sync.OnceValue(p.hasQueue), sync.OnceValue(func() bool { return hasInTreePlugin(handle) })
	if err := p.makeAllocators(); err != nil {
		return nil, err
	}
	p.preemption = p.newPreemption(switches)
	p.groups = p.newGroups()
	go switches.Follow(ctx)
	return p, nil
}

// newPreemption returns what answers what-ifs for preemption.
func (p *Plugin) newPreemption(switches *config.SwitchFile) *preempt.Preemption {
	return &preempt.Preemption{
		Snapshot:    p.handle.SnapshotSharedLister,
		Source:      p.source,
		Pods:        p.pods,
		Model:       p.model,
		Switches:    switches,
		Allocator:   p.whatIfCore,
		NominatedTo: p.nominatedTo,
		Modified:    p.snapshotModified,
		Tried:       func(pod types.UID) bool { _, tried := p.endings.Of(pod); return tried },
	}
}

// newGroups returns what plans devices for the pods of PodGroups.
func (p *Plugin) newGroups() *podgroup.Groups {
	return podgroup.New(podgroup.Hooks{
		Handle:      p.handle,
		Source:      p.source,
		Preemption:  p.preemption,
		Allocators:  append([]*allocator.Allocator{p.whatIfCore}, p.retryCores[:]...),
		Budget:      p.args.FilterBudget,
		BudgetLevel: p.budgetLevel,
		Nodes:       p.nodesInPlacement,
		Collect: func(logger klog.Logger, pod *corev1.Pod, group *podgroup.Cycle) ([]*claimstate.Claim, []corev1.ResourceName, bool) {
			claims, extended, refused := p.collect(logger, pod, group)
			return claims, extended, refused == nil
		},
		Usable: func(claims []*claimstate.Claim, node *corev1.Node) bool {
			unusable, _ := p.unusable(claims, node)
			return len(unusable) == 0
		},
		DryRun: func(ctx context.Context, usage *pools.State, m *podgroup.Member, nodeInfo fwk.NodeInfo) []*resourceapi.ResourceClaim {
			return p.dryRun(ctx, usage, m.State.(*cycle), m.Pod, nodeInfo)
		},
	})
}

// makeAllocators makes the allocators. They share one allocator.Memory.
func (p *Plugin) makeAllocators() error {
	policy, err := allocator.PolicyNamed(p.args.Policy)
	if err != nil {
		return err
	}
	options := allocator.Options{
		Features: coreFeatures(p.features),
		ShareID:  uuid.NewUUID,
		Policy:   policy,
		Topology: p.args.Topology,
		Budget:   p.args.FilterBudget,
		Memory:   allocator.NewMemory(allocator.MemoryOptions{Programs: cel.NewCache(programCacheSize)}),
	}
	p.core, p.whatIfCore = allocator.New(options), allocator.New(options)
	for i := range p.retryCores {
		options.Budget *= 4
		p.retryCores[i] = allocator.New(options)
	}
	return nil
}

// ClaimChanges is an interface that the ResourceClaimTracker of a simulator should implement. Then the plugin
// looks only at claims that changed. With another tracker, it lists all claims for each pod.
type ClaimChanges = model.ClaimChanges

// ExtendedClaims is an interface that such a tracker should implement, too. Then the plugin asks it for the
// claim of a pod with extended resources, instead of searching all claims.
type ExtendedClaims = claimstate.ExtendedClaims

// newModel returns the model of devices and claims. With the scheduler's own manager, informer events tell it
// which claims changed. With another one, such as that of a simulator, it has to ask.
func newModel(ctx context.Context, handle fwk.Handle, gates pools.Gates) (*model.Model, error) {
	dra := handle.SharedDRAManager()
	state := model.Shared(ctx, dra, gates)
	if !hasInformers(dra) {
		return state, nil
	}
	return state, state.FollowEvents(handle.SharedInformerFactory().Resource().V1().ResourceClaims().Informer())
}

// Name implements Plugin of the framework.
func (p *Plugin) Name() string { return Name }

// enabled reports whether dynamic resource allocation is on. If not, PreFilter keeps no state, as for pods without claims, and then no
// later extension point has anything to do.
func (p *Plugin) enabled() bool { return p.model != nil }

// bindingConditions reports whether device binding conditions are on: whether PreBind may have to wait for devices.
func (p *Plugin) bindingConditions() bool {
	return p.features.EnableDRADeviceBindingConditions && p.features.EnableDRAResourceClaimDeviceStatus
}

// coreFeatures translates the scheduler's feature gates for the allocator.
func coreFeatures(f feature.Features) allocator.Features {
	return allocator.Features(dynamicresources.AllocatorFeatures(f))
}

// Registry returns the in-tree plugins and this one. It is for programs that create scheduler frameworks
// themselves, such as autoscalers. The scheduler command adds the in-tree plugins by itself, and only takes
// Name and New.
func Registry() (frameworkruntime.Registry, error) {
	registry := plugins.NewInTreeRegistry()
	if err := registry.Register(Name, New); err != nil {
		return nil, fmt.Errorf("register plugin: %w", err)
	}
	return registry, nil
}
