package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// Name is the name of the plugin in scheduler configurations.
const Name = "Dray"

// Plugin implements the extension points of the scheduling framework. It is safe for
// concurrent use, as the framework requires.
type Plugin struct {
	features feature.Features
	settings settings
	handle   fwk.Handle
	client   kubernetes.Interface
	dra      fwk.SharedDRAManager
	core     *allocator.Allocator
	// model is nil if dynamic resource allocation is switched off. Then the plugin has
	// nothing to say about any pod.
	model *model.Model
	pods  podsByClaim
	notes notes
	// reasons are those of nodes.
	reasons reasons
	// noticed is the claim that the last event was about.
	noticed atomic.Pointer[resourceapi.ResourceClaim]
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

// errNodeAllocatable refuses what would otherwise overcommit nodes in silence.
var errNodeAllocatable = errors.New("feature DRANodeAllocatableResources is on: the scheduler accounts for such resources only with the in-tree plugin DynamicResources")

// New makes the plugin for one scheduler profile, with the feature gates of the process.
// The arguments are DrayArgs as the scheduler configuration has them, or nil.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return NewWithFeatures(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
}

// NewWithFeatures is New for those who decide themselves which features are on.
func NewWithFeatures(_ context.Context, args runtime.Object, handle fwk.Handle, features feature.Features) (*Plugin, error) {
	if !features.EnableDynamicResourceAllocation {
		return &Plugin{}, nil
	}
	if features.EnableDRANodeAllocatableResources {
		return nil, errNodeAllocatable
	}
	settings, err := settingsFrom(args, features)
	if err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	pods, err := indexPods(handle)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	core := coreFeatures(features)
	state, err := observing(handle, core.PoolGates())
	if err != nil {
		return nil, err
	}
	return &Plugin{
		features: features,
		settings: settings,
		handle:   handle,
		client:   handle.ClientSet(),
		dra:      handle.SharedDRAManager(),
		core: allocator.New(allocator.Options{
			Features: core,
			ShareID:  uuid.NewUUID,
			Budget:   settings.filterBudget,
		}),
		model:   state,
		pods:    pods,
		notes:   newNotes(),
		reasons: newReasons(),
	}, nil
}

// observing returns the state that is kept of the cluster. Of the scheduler's own manager
// it is known which events tell what changes. Others, such as those of simulators, are asked.
func observing(handle fwk.Handle, gates pools.Gates) (*model.Model, error) {
	dra := handle.SharedDRAManager()
	state := model.Shared(dra, gates)
	if _, own := dra.(*dynamicresources.DefaultDRAManager); !own {
		return state, nil
	}
	return state, state.FollowEvents(handle.SharedInformerFactory().Resource().V1().ResourceClaims().Informer())
}

// Name implements Plugin of the framework.
func (p *Plugin) Name() string { return Name }

func (p *Plugin) enabled() bool { return p.model != nil }

// bindingConditions reports whether devices may have to be prepared before a pod is bound.
func (p *Plugin) bindingConditions() bool {
	return p.features.EnableDRADeviceBindingConditions && p.features.EnableDRAResourceClaimDeviceStatus
}

// coreFeatures says which of the scheduler's features concern the core.
func coreFeatures(f feature.Features) allocator.Features {
	return allocator.Features{
		AdminAccess:             f.EnableDRAAdminAccess,
		CompatibilityGroups:     f.EnableDRADeviceCompatibilityGroups,
		ConsumableCapacity:      f.EnableDRAConsumableCapacity,
		DerivedAttributes:       f.EnableDRADerivedAttributes,
		DeviceBindingAndStatus:  f.EnableDRADeviceBindingConditions && f.EnableDRAResourceClaimDeviceStatus,
		DeviceTaints:            f.EnableDRADeviceTaints,
		FractionalCapacityRange: f.EnableDRAFractionalCapacityRange,
		ListTypeAttributes:      f.EnableDRAListTypeAttributes,
		OptionalNodeOperations:  f.EnableDRAOptionalNodeOperations,
		PartitionableDevices:    f.EnableDRAPartitionableDevices,
		PrioritizedList:         f.EnableDRAPrioritizedList,
	}
}
