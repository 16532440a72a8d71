// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// rating compares two devices for an option, as the documentation of a policy says.
type rating func(s *ratedCase, o ratedOption, a, b *ratedDevice) int

var ratings = map[string]rating{
	"FirstFit": func(*ratedCase, ratedOption, *ratedDevice, *ratedDevice) int { return 0 },
	"LeastWaste": func(_ *ratedCase, o ratedOption, a, b *ratedDevice) int {
		if found := o.fit(b).Cmp(o.fit(a)); found != 0 {
			return found
		}
		return cmp.Or(cmp.Compare(a.cores, b.cores), cmp.Compare(a.memory-a.taken, b.memory-b.taken), cmp.Compare(a.pays(), b.pays()))
	},
	"Pack":   func(s *ratedCase, _ ratedOption, a, b *ratedDevice) int { return -s.less(a, b) },
	"Spread": func(s *ratedCase, _ ratedOption, a, b *ratedDevice) int { return s.less(a, b) },
}

// fit is the mean part of what is free that is asked for. The device has all that is asked for.
func (o ratedOption) fit(d *ratedDevice) *big.Rat {
	sum, n := new(big.Rat), int64(0)
	if o.memory > 0 {
		n++
		sum.Add(sum, big.NewRat(o.memory, max(d.memory-d.taken, 1)))
	}
	if o.cores > 0 {
		n++
		sum.Add(sum, big.NewRat(o.cores, d.cores))
	}
	return sum.Quo(sum, big.NewRat(max(n, 1), 1))
}

// pays is what the next one to have the device draws.
func (d *ratedDevice) pays() int64 {
	if d.shares {
		return 0
	}
	return d.draws
}

// left is what is left of the counter at first.
func (s *ratedCase) left() int64 {
	left := s.total
	for _, d := range s.devices {
		if d.used || d.shares {
			left -= d.draws
		}
	}
	return left
}

// less compares how much is in use.
func (s *ratedCase) less(a, b *ratedDevice) int {
	inUse := func(d *ratedDevice) *big.Rat {
		most := new(big.Rat)
		if d.shareable {
			most = big.NewRat(d.taken, d.memory)
		}
		if counter := big.NewRat(s.total-s.left(), s.total); d.draws > 0 && counter.Cmp(most) > 0 {
			most = counter
		}
		return most
	}
	if found := inUse(a).Cmp(inUse(b)); found != 0 {
		return found
	}
	switch {
	case a.shares == b.shares:
		return 0
	case a.shares:
		return 1
	}
	return -1
}

// trial tries everything in the order of a rating.
type trial struct {
	*ratedCase
	by     rating
	chosen []ratedChoice
	picked []int // option by request
	// only are the options that may be picked, nil for all. Agree are lists of requests of which the
	// devices agree in numa.
	only  []int
	agree [][]int
}

type ratedChoice struct {
	request int
	device  *ratedDevice
}

func (s *ratedCase) enumerate(by rating, only []int, agree [][]int) *trial {
	t := &trial{ratedCase: s, by: by, only: only, agree: agree, picked: make([]int, len(s.requests))}
	if !t.request(0) {
		return nil
	}
	return t
}

// first is the first solution in order, of those whose devices agree as far as can be had.
func (s *ratedCase) first(by rating) *trial {
	best := s.enumerate(by, nil, nil)
	if best == nil || !s.topology {
		return best
	}
	var agree [][]int
	for _, group := range s.groups() {
		covered := 0
		for _, c := range best.chosen {
			if slices.Contains(group, c.request) {
				covered++
			}
		}
		if covered < 2 {
			continue
		}
		if next := s.enumerate(by, best.picked, append(slices.Clone(agree), group)); next != nil {
			best, agree = next, append(agree, group)
		}
	}
	return best
}

// groups are the requests of each claim, with those that may have several devices by themselves.
func (s *ratedCase) groups() (list [][]int) {
	for c := range s.claims {
		var all []int
		var single [][]int
		for i, r := range s.requests {
			if r.claim == c {
				all = append(all, i)
				single = append(single, []int{i})
			}
		}
		list = append(append(list, all), single...)
	}
	return list
}

func (t *trial) request(r int) bool {
	if r == len(t.requests) {
		return !slices.ContainsFunc(t.agree, func(group []int) bool { return !t.agrees(group) })
	}
	for o, option := range t.requests[r].options {
		if t.only != nil && t.only[r] != o {
			continue
		}
		t.picked[r] = o
		order := slices.DeleteFunc(slices.Clone(t.devices), func(d *ratedDevice) bool {
			return d.memory == 0 && option.memory > 0 || d.cores == 0 && option.cores > 0
		})
		slices.SortStableFunc(order, func(a, b *ratedDevice) int { return t.by(t.ratedCase, option, a, b) })
		if t.slot(r, order, option.count) {
			return true
		}
	}
	return false
}

func (t *trial) agrees(group []int) bool {
	var values []int
	for _, c := range t.chosen {
		if slices.Contains(group, c.request) {
			values = append(values, c.device.numa)
		}
	}
	return oneValue(values)
}

func (t *trial) slot(r int, order []*ratedDevice, count int64) bool {
	if count == 0 {
		return t.request(r + 1)
	}
	for i, d := range order {
		t.chosen = append(t.chosen, ratedChoice{r, d})
		if t.holds() && t.slot(r, order[i+1:], count-1) {
			return true
		}
		t.chosen = t.chosen[:len(t.chosen)-1]
	}
	return false
}

// holds adds up what is chosen.
func (t *trial) holds() bool {
	left, times, taken := t.left(), make(map[*ratedDevice]int), make(map[*ratedDevice]int64)
	for _, c := range t.chosen {
		option := t.requests[c.request].options[t.picked[c.request]]
		times[c.device]++
		taken[c.device] += max(option.memory, 1)
		switch d := c.device; {
		case !d.shareable && (d.used || times[d] > 1 || option.memory > d.memory):
			return false
		case d.shareable && d.taken+taken[d] > d.memory:
			return false
		case option.cores > d.cores:
			return false
		case times[d] == 1:
			left -= d.pays()
		}
	}
	return left >= 0
}

func (t *trial) describe() string {
	if t == nil {
		return "none"
	}
	text := ""
	for _, c := range t.chosen {
		r := t.requests[c.request]
		name := r.name
		if len(r.options) > 1 {
			name += "/" + r.options[t.picked[c.request]].name
		}
		text += fmt.Sprintf("%d/%s=%s; ", r.claim, name, c.device.name)
	}
	return text
}

// Each ready policy, with and without topology, gives the first solution of those that trying everything in
// the order that its documentation describes gives.
func TestPoliciesAgreeWithSorting(t *testing.T) {
	features := allocator.AllFeatures()
	for name, by := range ratings {
		policy, err := allocator.PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		different, none, aligned := 0, 0, 0
		for seed := range uint64(fewer(1000)) {
			s := drawRated(seed)
			ledger := pools.NewLedger(pools.Build(features.PoolGates(), s.slices()))
			for _, c := range s.inUse() {
				if err := ledger.Assume(c); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			options := allocator.Options{Policy: policy}
			if s.topology {
				options.Topology = []resourceapi.FullyQualifiedName{numa}
			}
			outcome, err := compile(options, s.objects()...).Allocate(t.Context(), ledger.State(), node("here"))
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			best := s.first(by)
			want, got := best.describe(), "none"
			if assignment, ok := outcome.(*allocator.Assignment); ok {
				got = ""
				for _, c := range assignment.Choices() {
					got += fmt.Sprintf("%d/%s=%s; ", c.Claim, c.Request, c.Device.Device)
				}
				if missed := assignment.Missed(); len(missed) > 0 {
					t.Fatalf("%s, seed %d: missed %v", name, seed, missed)
				}
			}
			if got != want {
				t.Fatalf("%s, seed %d, topology %t: got %s, want %s", name, seed, s.topology, got, want)
			}
			switch {
			case best == nil:
				none++
			case want != s.enumerate(ratings["FirstFit"], nil, nil).describe():
				different++
			}
			if best != nil && want != s.enumerate(by, nil, nil).describe() {
				aligned++
			}
		}
		t.Logf("%s: %d of %d differ from first fit, %d have another solution for the sake of topology, %d have none", name, different, fewer(1000), aligned, none)
		if none < fewer(300) || aligned < fewer(20) || different < fewer(60) && name != "FirstFit" {
			t.Errorf("%s: the cases are too easy: %d differ, %d are aligned, %d have no solution", name, different, aligned, none)
		}
	}
}

// Equal values of Fit are equal however they are computed: two thirds and one third are as much as two halves.
func TestEqualFits(t *testing.T) {
	s := &ratedCase{total: 1, claims: 1, devices: []*ratedDevice{{name: "halves", cores: 4, memory: 2, numa: -1}, {name: "thirds", cores: 3, memory: 3, numa: -1}}}
	s.requests = []ratedRequest{{name: "r0", options: []ratedOption{{count: 1, cores: 2, memory: 1}}}}
	outcome, err := compile(allocator.Options{Policy: allocator.LeastWaste{}}, s.objects()...).Allocate(t.Context(), clusterOf(s.slices()...).State(), node("here"))
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(outcome); got != "r0=thirds" {
		t.Errorf("got %s, want the one with fewer cores", got)
	}
}

// Equal fractions in use are equal for large numbers, too, such as a third of a number that cannot be exact.
func TestEqualParts(t *testing.T) {
	third := func(name string, memory int64) *ratedDevice {
		return &ratedDevice{name: name, memory: 3 * memory, taken: memory, shareable: true, shares: true, numa: -1}
	}
	s := &ratedCase{total: 1, claims: 1, devices: []*ratedDevice{third("small", 1), third("large", 1e18+1)}}
	s.requests = []ratedRequest{{name: "r0", options: []ratedOption{{count: 1}}}}
	cluster := clusterOf(s.slices()...)
	for _, c := range s.inUse() {
		if err := cluster.Assume(c); err != nil {
			t.Fatal(err)
		}
	}
	for _, policy := range []allocator.Policy{allocator.Pack{}, allocator.Spread{}} {
		outcome, err := compile(allocator.Options{Policy: policy}, s.objects()...).Allocate(t.Context(), cluster.State(), node("here"))
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen(outcome); got != "r0=small" {
			t.Errorf("%T: got %s, want the first one", policy, got)
		}
	}
}

// The attributes of a topology are in the order of importance, and count for each alternative that asks for
// several devices.
func TestTopologyOfTheFirstAttribute(t *testing.T) {
	slice := gpus("here", 3, "x")
	for i, values := range [][2]string{{"a", "a"}, {"b", "a"}, {"a", "b"}} {
		slice.Spec.Devices[i].Attributes["first"] = resourceapi.DeviceAttribute{StringValue: &values[0]}
		slice.Spec.Devices[i].Attributes["second"] = resourceapi.DeviceAttribute{StringValue: &values[1]}
	}
	state := clusterOf(slice).State()
	const first, second = resourceapi.FullyQualifiedName("gpu.example.com/first"), resourceapi.FullyQualifiedName("gpu.example.com/second")
	alternatives := claim("c", 1)
	request := &alternatives.Spec.Devices.Requests[0]
	request.Exactly = nil
	for i, count := range []int64{2, 1} {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("o", i), DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		})
	}
	for _, test := range []struct {
		claim    *resourceapi.ResourceClaim
		topology []resourceapi.FullyQualifiedName
		want     string
	}{
		{claim("c", 2), nil, "r0=gpu-0 r0=gpu-1"},
		{claim("c", 2), []resourceapi.FullyQualifiedName{first, second}, "r0=gpu-0 r0=gpu-2"},
		{claim("c", 2), []resourceapi.FullyQualifiedName{second, first}, "r0=gpu-0 r0=gpu-1"},
		{alternatives, []resourceapi.FullyQualifiedName{first}, "r0/o0=gpu-0 r0/o0=gpu-2"},
	} {
		outcome, err := compile(allocator.Options{Topology: test.topology}, test.claim).Allocate(t.Context(), state, node("here"))
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen(outcome); got != test.want {
			t.Errorf("topology %v: got %s, want %s", test.topology, got, test.want)
		}
	}
}
