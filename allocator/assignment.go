package allocator

import (
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
	question
	answer  *answer
	built   sync.Once
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

// pick is a choice of an answer, for the problem and the node that were asked about.
type pick struct {
	*alternative
	pool   *pools.Pool
	device *pools.Device
}

// pickBuffer is room for the picks of most problems.
const pickBuffer = 8

// picks appends the choices of the answer, by claim, request and slot.
func (a *Assignment) picks(to []pick) []pick {
	for _, at := range a.answer.choices {
		pool, device := a.device(at.place)
		to = append(to, pick{alternative: a.problem.byID[at.alternative], pool: pool, device: device})
	}
	return to
}

// Choices lists the devices in order, without building results.
func (a *Assignment) Choices() []Choice {
	list := make([]Choice, len(a.answer.choices))
	for i, p := range a.picks(nil) {
		list[i] = Choice{Claim: p.claim, Request: p.name, Device: idOf(p.pool, p.device)}
	}
	return list
}

// Results returns what the API server would hold in status.allocation of each claim
// of the problem, in order. They are built at the first call, which is when shares
// get their IDs. Configurations and tolerations are those of the input: read-only.
func (a *Assignment) Results() []resourceapi.AllocationResult {
	a.built.Do(func() {
		a.results = make([]resourceapi.AllocationResult, len(a.problem.claims))
		next := a.shareIDs()
		var buffer [pickBuffer]pick
		picks := a.picks(buffer[:0])
		for i := range picks {
			devices := &a.results[picks[i].claim].Devices
			if devices.Results == nil {
				devices.Results = make([]resourceapi.DeviceRequestAllocationResult, 0, picksOf(picks[i:]))
			}
			devices.Results = append(devices.Results, a.result(&picks[i], next))
		}
		for c := range a.results {
			a.results[c].Devices.Config = a.config(c)
			a.results[c].NodeSelector = a.nodeSelector(picks, c)
		}
	})
	return a.results
}

// picksOf counts the picks for the claim of the first.
func picksOf(picks []pick) (n int) {
	for n < len(picks) && picks[n].claim == picks[0].claim {
		n++
	}
	return n
}

func (a *Assignment) shareIDs() func() types.UID {
	if source := a.problem.allocator.shareID; source != nil {
		return source
	}
	n := 0
	return func() types.UID {
		n++
		return types.UID("share-" + strconv.Itoa(n))
	}
}

func (a *Assignment) result(p *pick, shareID func() types.UID) resourceapi.DeviceRequestAllocationResult {
	id := idOf(p.pool, p.device)
	result := resourceapi.DeviceRequestAllocationResult{
		Request:            p.name,
		Driver:             id.Driver,
		Pool:               id.Pool,
		Device:             id.Device,
		Tolerations:        p.tolerations,
		SkipNodeOperations: p.device.Slice.Object.Spec.SkipNodeOperations,
	}
	if p.admin {
		result.AdminAccess = ptr.To(true)
	}
	if p.device.Multiple && a.problem.allocator.features.ConsumableCapacity {
		result.ShareID = ptr.To(shareID())
		result.ConsumedCapacity = a.consumed(p)
	}
	if a.problem.allocator.features.DeviceBindingAndStatus {
		result.BindingConditions = p.device.Object.BindingConditions
		result.BindingFailureConditions = p.device.Object.BindingFailureConditions
	}
	return result
}

// consumed is what the filter said that a share takes, when the device was chosen.
func (a *Assignment) consumed(p *pick) map[resourceapi.QualifiedName]resource.Quantity {
	f := a.problem.filters[p.filter]
	use := newConsumption(f.features, f.capacity, p.device.Shape.Device)
	if len(use.parts) == 0 {
		return nil
	}
	consumed := make(map[resourceapi.QualifiedName]resource.Quantity, len(use.parts))
	for _, part := range use.parts {
		consumed[part.name] = part.quantity.DeepCopy()
	}
	return consumed
}

func idOf(pool *pools.Pool, d *pools.Device) pools.DeviceID {
	return pools.DeviceID{Driver: pool.ID.Driver, Pool: pool.ID.Name, Device: d.Object.Name}
}

// alternative is the one that was picked for a request.
func (a *Assignment) alternative(claim, request int) *alternative {
	return a.problem.claims[claim].requests[request].alternatives[a.answer.picked[claim][request]]
}

// config lists the configurations of the classes, each class once, and then those of
// the claim, as far as they concern what was picked.
func (a *Assignment) config(claim int) []resourceapi.DeviceAllocationConfiguration {
	configs := a.classConfig(claim)
	for _, own := range a.problem.claims[claim].object.Spec.Devices.Config {
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
	requests := a.problem.claims[claim].requests
	var seen []string
	for r := range requests {
		class := a.alternative(claim, r).class
		if len(class.Spec.Config) == 0 || slices.Contains(seen, class.Name) {
			continue
		}
		seen = append(seen, class.Name)
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
	for r, request := range a.problem.claims[claim].requests {
		if named(names, request.name, a.alternative(claim, r).name) {
			return true
		}
	}
	return false
}

func (a *Assignment) concernsAll(claim int, names []string) bool {
	for r, request := range a.problem.claims[claim].requests {
		if !named(names, request.name, a.alternative(claim, r).name) {
			return false
		}
	}
	return true
}

func named(names []string, request, alternative string) bool {
	return slices.Contains(names, request) || slices.Contains(names, alternative)
}
