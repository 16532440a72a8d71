package allocator

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// Assignment is a solution: devices for every request. It is immutable and safe for
// concurrent use.
type Assignment struct {
	in      *instance
	choices []choice // by claim, request and slot
	picked  [][]int
	stats   Stats
	once    sync.Once
	results []resourceapi.AllocationResult
}

// Choice is one device of an Assignment.
type Choice struct {
	// Claim is the position of the claim in the Problem.
	Claim int
	// Request is the name of the request, or "request/subrequest".
	Request string
	Device  pools.DeviceID
}

func newAssignment(in *instance, s *search) (*Assignment, error) {
	a := &Assignment{in: in, choices: s.chosen, picked: s.picked, stats: s.stats}
	for c := range in.problem.claims {
		if err := a.checkSelectors(c); err != nil {
			return nil, fmt.Errorf("claim %s: %w", in.problem.claims[c].ref(), err)
		}
	}
	return a, nil
}

// Stats implements Outcome.
func (a *Assignment) Stats() Stats { return a.stats }

func (*Assignment) outcome() {}

// Node is the name of the node.
func (a *Assignment) Node() string { return a.in.node.Name }

// Choices lists the devices in order, without building results.
func (a *Assignment) Choices() []Choice {
	choices := make([]Choice, len(a.choices))
	for i, c := range a.choices {
		choices[i] = Choice{Claim: c.alt.claim, Request: c.alt.name, Device: a.in.deviceID(c.device)}
	}
	return choices
}

// Results returns what the API server would hold in status.allocation of each claim
// of the problem, in order. They are built at the first call, which is when shares
// get their IDs. Configurations and tolerations are those of the input: read-only.
func (a *Assignment) Results() []resourceapi.AllocationResult {
	a.once.Do(func() {
		a.results = make([]resourceapi.AllocationResult, len(a.in.problem.claims))
		next := a.shareIDs()
		for _, c := range a.choices {
			devices := &a.results[c.alt.claim].Devices
			devices.Results = append(devices.Results, a.result(c, next))
		}
		for c := range a.results {
			a.results[c].Devices.Config = a.config(c)
			a.results[c].NodeSelector = a.nodeSelector(c)
		}
	})
	return a.results
}

func (a *Assignment) shareIDs() func() types.UID {
	if source := a.in.problem.allocator.shareID; source != nil {
		return source
	}
	n := 0
	return func() types.UID {
		n++
		return types.UID("share-" + strconv.Itoa(n))
	}
}

func (a *Assignment) result(c choice, shareID func() types.UID) resourceapi.DeviceRequestAllocationResult {
	d := &a.in.devices[c.device]
	id := a.in.deviceID(c.device)
	result := resourceapi.DeviceRequestAllocationResult{
		Request:            c.alt.name,
		Driver:             id.Driver,
		Pool:               id.Pool,
		Device:             id.Device,
		Tolerations:        c.alt.tolerations,
		SkipNodeOperations: d.Slice.Object.Spec.SkipNodeOperations,
	}
	if c.alt.admin {
		result.AdminAccess = ptr.To(true)
	}
	if d.multiple {
		result.ShareID = ptr.To(shareID())
		result.ConsumedCapacity = a.consumed(c)
	}
	if a.in.features().DeviceBindingAndStatus {
		result.BindingConditions = d.Object.BindingConditions
		result.BindingFailureConditions = d.Object.BindingFailureConditions
	}
	return result
}

func (a *Assignment) consumed(c choice) map[resourceapi.QualifiedName]resource.Quantity {
	use := a.in.alternatives[c.alt.id].domain.uses[c.device]
	if len(use.parts) == 0 {
		return nil
	}
	consumed := make(map[resourceapi.QualifiedName]resource.Quantity, len(use.parts))
	for _, part := range use.parts {
		consumed[part.name] = part.quantity.DeepCopy()
	}
	return consumed
}

// alternative is the one that was picked for a request.
func (a *Assignment) alternative(claim, request int) *alternative {
	return a.in.problem.claims[claim].requests[request].alternatives[a.picked[claim][request]]
}

// config lists the configurations of the classes, each class once, and then those of
// the claim, as far as they concern what was picked.
func (a *Assignment) config(claim int) []resourceapi.DeviceAllocationConfiguration {
	configs := a.classConfig(claim)
	for _, own := range a.in.problem.claims[claim].object.Spec.Devices.Config {
		if len(own.Requests) == 0 || a.concerns(claim, own.Requests) {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClaim,
				Requests:            own.Requests,
				DeviceConfiguration: own.DeviceConfiguration,
			})
		}
	}
	for i := range configs {
		if a.concernsAll(claim, configs[i].Requests) {
			configs[i].Requests = nil // by the API, none means all
		}
	}
	return configs
}

func (a *Assignment) classConfig(claim int) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	requests := a.in.problem.claims[claim].requests
	seen := make(map[string]bool)
	for r := range requests {
		class := a.alternative(claim, r).class
		if seen[class.Name] || len(class.Spec.Config) == 0 {
			continue
		}
		seen[class.Name] = true
		var names []string
		for other := r; other < len(requests); other++ {
			if alt := a.alternative(claim, other); alt.class.Name == class.Name {
				names = append(names, alt.name)
			}
		}
		for _, config := range class.Spec.Config {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClass,
				Requests:            slices.Clone(names),
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	return configs
}

// concerns reports whether names include a request of the claim as it was picked.
func (a *Assignment) concerns(claim int, names []string) bool {
	for r, request := range a.in.problem.claims[claim].requests {
		if named(names, request.name, a.alternative(claim, r).name) {
			return true
		}
	}
	return false
}

func (a *Assignment) concernsAll(claim int, names []string) bool {
	for r, request := range a.in.problem.claims[claim].requests {
		if !named(names, request.name, a.alternative(claim, r).name) {
			return false
		}
	}
	return true
}

func named(names []string, request, alternative string) bool {
	return slices.Contains(names, request) || slices.Contains(names, alternative)
}
