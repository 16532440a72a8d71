// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

const (
	numa     = resourceapi.FullyQualifiedName("topology.example.com/numa")
	modelOfA = resourceapi.FullyQualifiedName("a.example.com/model")
	memory   = resourceapi.QualifiedName("memory")
)

// smallDevice is a device as the enumeration sees it. Numa is -1 if it has no such attribute.
type smallDevice struct {
	pools.DeviceID
	model  string
	numa   int
	memory int64
	used   bool
	// step is that in which shares take of the memory, inUse what they have taken. Step is 0 if the
	// device is not shared.
	step, inUse int64
}

// smallClasses are those of all small clusters: the same, once for Dray and once in Go.
var smallClasses = map[string]struct {
	selector string
	has      func(d *smallDevice) bool
}{
	"a":      {`device.driver == "a.example.com"`, func(d *smallDevice) bool { return d.Driver == "a.example.com" }},
	"b":      {`device.driver == "b.example.com"`, func(d *smallDevice) bool { return d.Driver == "b.example.com" }},
	"x":      {`device.attributes[device.driver].model == "x"`, func(d *smallDevice) bool { return d.model == "x" }},
	"x-of-a": {`device.driver == "a.example.com" && device.attributes["a.example.com"].model == "x"`, func(d *smallDevice) bool { return d.Driver == "a.example.com" && d.model == "x" }},
}

// smallCase is a cluster of few devices and the claims of a pod, drawn at random.
type smallCase struct {
	*rand.Rand
	nodes     []*corev1.Node
	devices   map[string][]*smallDevice // by node, in first-fit order
	slices    []*resourceapi.ResourceSlice
	used      []*resourceapi.ResourceClaim
	claims    []*resourceapi.ResourceClaim // of the pod, allocated ones among them
	extension []extension.Claim
}

func drawSmall(seed uint64) *smallCase {
	s := &smallCase{Rand: rand.New(rand.NewPCG(seed, 1)), devices: make(map[string][]*smallDevice)}
	for n := range 3 {
		name := fmt.Sprintf("node-%d", n)
		s.nodes = append(s.nodes, node(name))
		for _, driver := range []string{"a.example.com", "b.example.com"} {
			s.drawPool(name, driver)
		}
	}
	for i := range 1 + s.IntN(3) {
		s.drawClaim(i)
	}
	return s
}

func (s *smallCase) drawPool(node, driver string) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range s.IntN(4) {
		d := &smallDevice{
			DeviceID: pools.DeviceID{Driver: driver, Pool: node, Device: fmt.Sprintf("d%d", i)},
			model:    []string{"x", "y"}[s.IntN(2)], numa: s.IntN(4) - 1, memory: int64(s.IntN(5)), used: s.IntN(6) == 0,
		}
		attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &d.model}}
		if d.numa >= 0 {
			attributes[resourceapi.QualifiedName(numa)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(d.numa))}
		}
		made := resourceapi.Device{
			Name: d.Device, Attributes: attributes,
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{memory: {Value: *resource.NewQuantity(d.memory, resource.DecimalSI)}},
		}
		if s.IntN(4) == 0 {
			d.step = 1 + s.Int64N(2)
			made.AllowMultipleAllocations = ptr.To(true)
			made.Capacity[memory] = stepped(d.memory, d.step)
		}
		slice.Spec.Devices = append(slice.Spec.Devices, made)
		s.devices[node] = append(s.devices[node], d)
		if d.used && d.step > 0 {
			d.inUse = d.step * s.Int64N(d.memory/d.step+1)
		}
		if d.used {
			s.used = append(s.used, holder(fmt.Sprintf("used-%d", len(s.used)), d))
		}
	}
	s.slices = append(s.slices, slice)
}

func (s *smallCase) drawClaim(i int) {
	c, more := claim(fmt.Sprintf("c%d", i)), extension.Claim{Requests: make(map[string]extension.Request)}
	if s.IntN(2) == 0 {
		more.MatchAcross = append(more.MatchAcross, numa)
	}
	if taken := s.ofPod(); i > 0 && taken != nil && s.IntN(4) == 0 {
		// A claim of the pod that is allocated already.
		held := holder(c.Name, taken)
		s.used = append(s.used, held)
		taken.used = true
		s.claims, s.extension = append(s.claims, held), append(s.extension, more)
		return
	}
	for r := range 1 + s.IntN(2) {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", r)}
		if s.IntN(4) > 0 {
			exactly := s.drawExactly(more, request.Name)
			request.Exactly = &exactly
		} else {
			for o := range 2 {
				name := fmt.Sprintf("o%d", o)
				exactly := s.drawExactly(more, request.Name+"/"+name)
				request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
					Name: name, DeviceClassName: exactly.DeviceClassName, AllocationMode: exactly.AllocationMode, Count: exactly.Count,
				})
			}
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, request)
	}
	if s.IntN(4) == 0 {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(numa), Requests: []string{"r0"}})
	}
	if s.IntN(6) == 0 {
		more.MatchCapacities = append(more.MatchCapacities, extension.CapacityMatch{Capacity: memoryOfA, Requests: []string{"r0"}[s.IntN(2):]})
	}
	if s.IntN(4) == 0 {
		more.MaxDistinct = append(more.MaxDistinct, extension.DistinctLimit{Attribute: numa, Most: 1 + s.Int64N(2), Requests: []string{"r0"}[s.IntN(2):]})
	}
	s.drawPreferences(&more, c)
	s.claims, s.extension = append(s.claims, c), append(s.extension, more)
}

// ofPod is a device on the first node that nobody has, nil if there is none.
func (s *smallCase) ofPod() *smallDevice {
	free := slices.IndexFunc(s.devices["node-0"], func(d *smallDevice) bool { return !d.used })
	if free < 0 {
		return nil
	}
	return s.devices["node-0"][free]
}

func (s *smallCase) drawExactly(more extension.Claim, name string) resourceapi.ExactDeviceRequest {
	names := []string{"a", "b", "x", "x-of-a"}
	s.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	exactly := resourceapi.ExactDeviceRequest{DeviceClassName: names[0], AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(s.IntN(3))}
	var beyond extension.Request
	for _, class := range names[1 : 1+s.IntN(3)] {
		beyond.Classes = append(beyond.Classes, extension.Class{DeviceClassName: class})
	}
	if s.IntN(2) == 0 {
		beyond.UpTo = exactly.Count + int64(s.IntN(3))
	}
	if s.IntN(4) == 0 {
		beyond.Totals = map[resourceapi.QualifiedName]resource.Quantity{memory: *resource.NewQuantity(int64(1+s.IntN(8)), resource.DecimalSI)}
	}
	if len(beyond.Classes) > 0 || beyond.UpTo > 0 || len(beyond.Totals) > 0 {
		more.Requests[name] = beyond
	}
	return exactly
}

// smallPick is a device that the enumeration chose.
type smallPick struct {
	claim   int
	request string
	class   string
	device  *smallDevice
	// gives is what it gives to a total, takes what a share takes for that.
	gives, takes int64
}

// enumeration tries everything in order, as docs/decisions/0026 and 0033 say.
type enumeration struct {
	*smallCase
	on     []*smallDevice
	chosen []smallPick
	wanted []smallPreference
	// picked is the alternative and the number of devices of each request, by claim and position; fixed are those
	// that are decided already, of which a number below zero is open.
	picked, fixed map[[2]int]smallOption
}

// smallOption is an alternative with a number of devices.
type smallOption struct {
	name    string
	devices int
}

// enumerate returns the first solution on a node, with the ranks of the preferences that it does not
// have, and whether there is one. It asks for all preferences first, then for all but the last, and
// so on: in the end for none.
func (s *smallCase) enumerate(node string) (picks []smallPick, missed []int, found bool) {
	preferences := s.preferences()
	for with := 1<<len(preferences) - 1; with >= 0; with-- {
		e := &enumeration{smallCase: s, on: s.devices[node]}
		missed = missed[:0]
		for rank, p := range preferences {
			if with>>(len(preferences)-1-rank)&1 == 1 {
				e.wanted = append(e.wanted, p)
			} else {
				missed = append(missed, rank)
			}
		}
		if e.picked = make(map[[2]int]smallOption); e.request(0, 0) {
			return e.numbered().chosen, missed, true
		}
	}
	return nil, nil, false
}

// numbered is the first solution with the alternatives of this one, and with the best number of the first request,
// then of the second one, and so on.
func (e *enumeration) numbered() *enumeration {
	fixed := make(map[[2]int]smallOption)
	for at, option := range e.picked {
		fixed[at] = smallOption{option.name, -1}
	}
	for claim := range e.claims {
		for position := range e.claims[claim].Spec.Devices.Requests {
			at := [2]int{claim, position}
			option, found := fixed[at]
			if !found {
				continue
			}
			for _, n := range e.numbersOf(claim, position, option.name) {
				fixed[at] = smallOption{option.name, n}
				next := &enumeration{smallCase: e.smallCase, on: e.on, wanted: e.wanted, picked: make(map[[2]int]smallOption), fixed: fixed}
				if next.request(0, 0) {
					e = next
					break
				}
			}
		}
	}
	return e
}

// numbersOf are those of an alternative, the best first.
func (e *enumeration) numbersOf(claim, position int, name string) []int {
	r := &e.claims[claim].Spec.Devices.Requests[position]
	count := int64(0)
	if r.Exactly != nil {
		count = r.Exactly.Count
	}
	for _, sub := range r.FirstAvailable {
		if r.Name+"/"+sub.Name == name {
			count = sub.Count
		}
	}
	return e.numbers(claim, name, count)
}

func (e *enumeration) numbers(claim int, name string, count int64) (list []int) {
	beyond := e.extension[claim].Requests[name]
	if len(beyond.Totals) == 0 {
		for n := max(count, beyond.UpTo); n >= count; n-- {
			list = append(list, int(n))
		}
		return list
	}
	most := int64(len(e.on))
	if beyond.UpTo > 0 {
		most = beyond.UpTo
	}
	for n := max(count, 1); n <= max(count, most, 1); n++ {
		list = append(list, int(n))
	}
	return list
}

func (e *enumeration) request(claim, position int) bool {
	switch {
	case claim == len(e.claims):
		return e.agrees() && !slices.ContainsFunc(e.wanted, func(p smallPreference) bool { return !p.has(e) })
	case e.claims[claim].Status.Allocation != nil, position == len(e.claims[claim].Spec.Devices.Requests):
		return e.request(claim+1, 0)
	}
	r := &e.claims[claim].Spec.Devices.Requests[position]
	if r.Exactly != nil {
		return e.option(claim, position, r.Name, r.Exactly.DeviceClassName, r.Exactly.Count)
	}
	return slices.ContainsFunc(r.FirstAvailable, func(sub resourceapi.DeviceSubRequest) bool {
		return e.option(claim, position, r.Name+"/"+sub.Name, sub.DeviceClassName, sub.Count)
	})
}

func (e *enumeration) option(claim, position int, name, class string, count int64) bool {
	beyond, classes := e.extension[claim].Requests[name], []string{class}
	for _, other := range beyond.Classes {
		classes = append(classes, other.DeviceClassName)
	}
	fixed, isFixed := e.fixed[[2]int{claim, position}]
	if isFixed && fixed.name != name {
		return false
	}
	for _, n := range e.numbers(claim, name, count) {
		if isFixed && fixed.devices >= 0 && fixed.devices != n {
			continue
		}
		e.picked[[2]int{claim, position}] = smallOption{name, n}
		if e.slots(claim, position, name, classes, n, 0) {
			return true
		}
	}
	return false
}

func (e *enumeration) slots(claim, position int, name string, classes []string, left, from int) bool {
	if left == 0 {
		return e.has(claim, name) && e.request(claim, position+1)
	}
	for i := from; i < len(e.on); i++ {
		d := e.on[i]
		of := slices.IndexFunc(classes, func(class string) bool { return smallClasses[class].has(d) })
		if of < 0 || d.step == 0 && (d.used || slices.ContainsFunc(e.chosen, func(c smallPick) bool { return c.device == d })) {
			continue
		}
		pick := smallPick{claim: claim, request: name, class: classes[of], device: d}
		if e.fill(&pick); len(e.extension[claim].Requests[name].Totals) == 0 {
			pick.gives, pick.takes = 0, 0
		}
		e.chosen = append(e.chosen, pick)
		if e.slots(claim, position, name, classes, left-1, i+1) {
			return true
		}
		e.chosen = e.chosen[:len(e.chosen)-1]
	}
	return false
}

// agrees checks constraints of claims, and across them.
func (e *enumeration) agrees() bool {
	var across []int
	for i, c := range e.claims {
		var own []int
		if len(e.extension[i].MatchCapacities) > 0 && !e.sameMemory(i, e.extension[i].MatchCapacities[0].Requests) {
			return false
		}
		for _, pick := range e.chosen {
			if pick.claim != i {
				continue
			}
			if slices.Contains(e.extension[i].MatchAcross, numa) {
				across = append(across, pick.device.numa)
			}
			if request, _, _ := strings.Cut(pick.request, "/"); request == "r0" {
				own = append(own, pick.device.numa)
			}
		}
		if len(c.Spec.Devices.Constraints) > 0 && !oneValue(own) || !e.limited(i) {
			return false
		}
		if c.Status.Allocation != nil && slices.Contains(e.extension[i].MatchAcross, numa) {
			across = append(across, e.heldNuma(c))
		}
	}
	return oneValue(across) || !slices.ContainsFunc(e.chosen, func(c smallPick) bool { return len(e.extension[c.claim].MatchAcross) > 0 })
}

// limited reports whether the devices of a claim have the attribute, with as few values as there may be.
func (e *enumeration) limited(claim int) bool {
	for _, limit := range e.extension[claim].MaxDistinct {
		different := make(map[int]bool)
		for _, pick := range e.chosen {
			if request, _, _ := strings.Cut(pick.request, "/"); pick.claim == claim && (len(limit.Requests) == 0 || slices.Contains(limit.Requests, request)) {
				different[pick.device.numa] = true
			}
		}
		if different[-1] || len(different) > int(limit.Most) {
			return false
		}
	}
	return true
}

// heldBy is the device that a claim of the pod has, nil if the node does not see it.
func (e *enumeration) heldBy(c *resourceapi.ResourceClaim) *smallDevice {
	for _, d := range e.on {
		if held := c.Status.Allocation.Devices.Results[0]; d.Driver == held.Driver && d.Pool == held.Pool && d.Device == held.Device {
			return d
		}
	}
	return nil
}

// heldNuma is the NUMA node of the device that a claim of the pod has, -1 if the node does not see it.
func (e *enumeration) heldNuma(c *resourceapi.ResourceClaim) int {
	if d := e.heldBy(c); d != nil {
		return d.numa
	}
	return -1
}

// oneValue reports whether all devices have the attribute, with one value.
func oneValue(values []int) bool {
	return !slices.ContainsFunc(values, func(v int) bool { return v < 0 || v != values[0] })
}

// TestExtensionsAgreeWithEnumeration: classes, elastic counts, totals, matches across claims and preferences
// have the answer that trying everything in order has, on nodes that are like each other and on others, and
// whether it is remembered or not.
func TestExtensionsAgreeWithEnumeration(t *testing.T) {
	var classes []*resourceapi.DeviceClass
	for name, class := range smallClasses {
		classes = append(classes, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: class.selector}}},
		}})
	}
	options := allocator.Options{Features: allocator.AllFeatures()}
	kept := allocator.New(options)
	var none, several, elastic, summed, backtracked, missing, preferring, filled int
	for seed := range uint64(fewer(3000)) {
		s := drawSmall(1000 + seed) // where the first tenth alone has enough of each kind
		ledger := pools.NewLedger(pools.Build(options.Features.PoolGates(), s.slices))
		for i, c := range s.used {
			c.UID = types.UID(fmt.Sprintf("uid-%d", i))
			if err := ledger.Assume(c); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for _, a := range []*allocator.Allocator{kept, unasked(options)} {
			problem, err := a.CompileExtended(s.claims, s.extension, allocator.ClassMap(classes...))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, on := range s.nodes {
				outcome, err := problem.Allocate(t.Context(), ledger.State(), on)
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, on.Name, err)
				}
				picks, missed, found := s.enumerate(on.Name)
				if want, got := s.describe(picks, missed, found), describeOutcome(outcome); got != want {
					t.Fatalf("seed %d, %s: got %s, want %s", seed, on.Name, got, want)
				}
				if a == kept {
					continue
				}
				if outcome.Stats().Backtracks > 0 {
					backtracked++
				}
				if !found {
					none++
				}
				if len(missed) > 0 {
					missing++
				}
				if found && len(missed) < len(s.preferences()) {
					preferring++
				}
				for _, pick := range picks {
					beyond := s.extension[pick.claim].Requests[pick.request]
					switch {
					case pick.takes > 0:
						filled++
					case len(beyond.Totals) > 0:
						summed++
					case len(beyond.Classes) > 0:
						several++
					case beyond.UpTo > 0:
						elastic++
					}
				}
			}
		}
	}
	t.Logf("%d nodes without a solution, %d where the search went back, %d devices that have totals together, %d others of one of several classes, %d others of elastic requests, "+
		"%d solutions that miss a preference, %d that have one, %d shares that are filled", none, backtracked, summed, several, elastic, missing, preferring, filled)
	for _, n := range []int{none, summed, several, elastic, backtracked, missing, preferring, filled} {
		if n < fewer(3000)/20 {
			t.Error("the cases are too easy")
		}
	}
}

// describe is what describeOutcome says. Positions of claims are those among the pending ones.
func (s *smallCase) describe(picks []smallPick, missed []int, found bool) string {
	if !found {
		return "none"
	}
	text := ""
	for _, pick := range picks {
		position := 0
		for _, c := range s.claims[:pick.claim] {
			if c.Status.Allocation == nil {
				position++
			}
		}
		text += fmt.Sprintf("%d/%s=%s of %s", position, pick.request, pick.device.DeviceID, pick.class)
		if pick.device.step > 0 {
			text += fmt.Sprintf(" taking %d", pick.takes)
		}
		text += "; "
	}
	for _, rank := range missed {
		text += fmt.Sprintf("without preference %d; ", rank)
	}
	return text
}
