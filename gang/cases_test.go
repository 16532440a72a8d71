// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
)

// device is one of a small cluster. It belongs to a pool, of which all devices draw on one counter.
type device struct {
	pool, model, root int
	draws             int64
	rail              int // below zero for none
}

// alternative is a number of devices of a model.
type alternative struct{ model, count int }

// claim has requests, each with its alternatives in order. A matched one has devices of one root. One for admin access has one request
// for one device, which others may have.
type claim struct {
	requests [][]alternative
	matched  bool
	admin    bool
}

// small is a question in numbers: what there is can be enumerated. Pool n is that of node n, the last one is for all nodes.
type small struct {
	nodes    int
	counters []int64 // by pool
	devices  []device
	claims   []claim
	pods     [][]int // claims of each pod
	kinds    []int   // of pods
	cpu      []int   // of kinds
	room     []int   // CPU of nodes
	away     [][]int // nodes on which a kind cannot run
	least    int
	across   across
	allowed  []int // rails of the devices that across covers, nil for all
}

// across is that devices of all pods are of so many rails at most.
type across struct {
	most      int // 0 for no constraint
	match     bool
	preferred bool
	requests  []string
}

// features of a small case.
type features struct{ counters, lists, matches, shared, network, cpu, kinds, least, away, across, admin bool }

func drawSmall(r *rand.Rand, f features) *small {
	s := &small{nodes: 1 + r.IntN(3)}
	models := 2
	s.drawDevices(r, f, models)
	kinds := 1
	if f.kinds {
		kinds = 1 + r.IntN(3)
	}
	templates := make([][]claim, kinds)
	for k := range kinds {
		for range 1 + r.IntN(5)/4 {
			templates[k] = append(templates[k], drawClaim(r, f, models))
		}
		if f.admin && r.IntN(2) == 0 {
			watch := claim{requests: [][]alternative{{{r.IntN(models), 1}}}, admin: true}
			templates[k] = slices.Insert(templates[k], r.IntN(1+len(templates[k])), watch)
		}
		s.cpu = append(s.cpu, 1+r.IntN(2))
		var away []int
		for n := range s.nodes {
			if f.away && r.IntN(4) == 0 {
				away = append(away, n)
			}
		}
		s.away = append(s.away, away)
	}
	for range s.nodes {
		s.room = append(s.room, 100)
		if f.cpu {
			s.room[len(s.room)-1] = r.IntN(6)
		}
	}
	pods := 2 + r.IntN(3)
	common := -1
	if f.shared && r.IntN(2) == 0 {
		common = 0
		s.claims = append(s.claims, drawClaim(r, f, models))
	}
	for range pods {
		k := r.IntN(kinds)
		var own []int
		if common >= 0 && r.IntN(2) == 0 {
			own = append(own, common)
		}
		for _, c := range templates[k] {
			own = append(own, len(s.claims))
			s.claims = append(s.claims, c)
		}
		s.pods, s.kinds = append(s.pods, own), append(s.kinds, k)
	}
	if s.least = pods; f.least {
		s.least = 1 + r.IntN(pods)
	}
	if f.across {
		s.drawAcross(r)
	}
	return s
}

func (s *small) drawDevices(r *rand.Rand, f features, models int) {
	for n := range s.nodes + 1 {
		s.counters = append(s.counters, int64(1+r.IntN(4)))
		if n == s.nodes && !f.network {
			continue
		}
		if f.counters && r.IntN(3) > 0 { // a device that can be had whole or in halves
			s.counters[n] = 2
			s.devices = append(s.devices, device{n, 0, 0, 2, 0}, device{n, 1, 0, 1, 0}, device{n, 1, 1, 1, 0})
			continue
		}
		for range r.IntN(5) {
			d := device{pool: n, model: r.IntN(models), root: r.IntN(2)}
			if f.counters {
				d.draws = int64(1 + r.IntN(2))
			}
			s.devices = append(s.devices, d)
		}
	}
}

func (s *small) drawAcross(r *rand.Rand) {
	for i := range s.devices {
		if s.devices[i].rail = r.IntN(3); r.IntN(10) == 0 {
			s.devices[i].rail = -1
		}
	}
	s.across.most = 1 + r.IntN(5)/4
	s.across.match = s.across.most == 1 && r.IntN(3) > 0
	s.across.preferred = s.across.match && r.IntN(4) == 0
	s.across.requests = [][]string{nil, nil, {"r0"}, {"r1"}, {"r0/s0"}, {"r0/s1", "r1"}}[r.IntN(6)]
}

// covers reports whether an alternative of a request has to be of a rail.
func (s *small) covers(c, request, alternative int) bool {
	names := s.across.requests
	name := fmt.Sprint("r", request)
	return s.across.most > 0 && (len(names) == 0 || slices.Contains(names, name) ||
		len(s.claims[c].requests[request]) > 1 && slices.Contains(names, fmt.Sprint(name, "/s", alternative)))
}

// group is what is asked of all pods.
func (s *small) group() extension.Group {
	const rail = "gpu.example.com/rail"
	match := []extension.GroupMatch{{MatchAttribute: rail, Requests: s.across.requests}}
	switch {
	case s.across.most == 0:
		return extension.Group{}
	case s.across.preferred:
		return extension.Group{Preferred: match}
	case s.across.match:
		return extension.Group{Constraints: match}
	}
	return extension.Group{MaxDistinct: []extension.DistinctLimit{{Attribute: rail, Most: int64(s.across.most), Requests: s.across.requests}}}
}

func drawClaim(r *rand.Rand, f features, models int) claim {
	c := claim{matched: f.matches && r.IntN(2) == 0}
	for range 1 + r.IntN(5)/4 {
		var request []alternative
		n := 1
		if f.lists {
			n = 1 + r.IntN(3)
		}
		for i := range n {
			request = append(request, alternative{r.IntN(models), 1 + r.IntN(5)/4})
			if n > 1 && r.IntN(3) > 0 {
				request[i] = alternative{min(i, models-1), 1}
			}
		}
		c.requests = append(c.requests, request)
	}
	return c
}

func (s *small) pool(p int) string { return fmt.Sprint("pool-", p) }

// state is what there is.
func (s *small) state() *pools.State {
	return pools.NewState(pools.Build(allocator.AllFeatures().PoolGates(), s.slices()))
}

// slices are those of all pools.
func (s *small) slices() []*resourceapi.ResourceSlice {
	var slices []*resourceapi.ResourceSlice
	for p := range s.nodes + 1 {
		slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: s.pool(p), Generation: 1, ResourceSliceCount: 2},
		}}
		if slice.Name = s.pool(p); p < s.nodes {
			slice.Spec.NodeName = ptr.To(fmt.Sprint("node-", p))
		} else {
			slice.Spec.AllNodes = ptr.To(true)
		}
		counters := slice.DeepCopy()
		counters.Name += "-counters"
		counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"units": {Value: *resource.NewQuantity(s.counters[p], resource.DecimalSI)}}}}
		for i, d := range s.devices {
			if d.pool != p {
				continue
			}
			made := resourceapi.Device{Name: fmt.Sprint("device-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {IntValue: ptr.To(int64(d.model))}, "root": {IntValue: ptr.To(int64(d.root))},
			}}
			if d.rail >= 0 {
				made.Attributes["rail"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(d.rail))}
			}
			if d.draws > 0 {
				made.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{"units": {Value: *resource.NewQuantity(d.draws, resource.DecimalSI)}}}}
			}
			slice.Spec.Devices = append(slice.Spec.Devices, made)
		}
		slices = append(slices, slice, counters)
	}
	return slices
}

func exactly(a alternative) (string, []resourceapi.DeviceSelector, int64) {
	return "gpu", []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].model == %d`, a.model),
	}}}, int64(a.count)
}

func (c claim) object(name string) *resourceapi.ResourceClaim {
	made := &resourceapi.ResourceClaim{}
	made.Namespace, made.Name = "default", name
	for i, alternatives := range c.requests {
		request := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		for j, a := range alternatives {
			class, selectors, count := exactly(a)
			if len(alternatives) == 1 {
				request.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: class, Selectors: selectors, Count: count, AllocationMode: resourceapi.DeviceAllocationModeExactCount}
				if c.admin {
					request.Exactly.AdminAccess = ptr.To(true)
				}
				continue
			}
			request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
				Name: fmt.Sprint("s", j), DeviceClassName: class, Selectors: selectors, Count: count, AllocationMode: resourceapi.DeviceAllocationModeExactCount,
			})
		}
		made.Spec.Devices.Requests = append(made.Spec.Devices.Requests, request)
	}
	if c.matched {
		made.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/root"))}}
	}
	return made
}

// limit has devices be of the rails that are allowed.
func (s *small) limit(c int, claim *resourceapi.ResourceClaim) {
	if s.allowed == nil {
		return
	}
	rails := make([]string, len(s.allowed))
	for i, rail := range s.allowed {
		rails[i] = fmt.Sprint(rail)
	}
	selector := resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: `"rail" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].rail in [` + strings.Join(rails, ", ") + "]"}}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly != nil && s.covers(c, i, 0) {
			r.Exactly.Selectors = append(r.Exactly.Selectors, selector)
		}
		for j := range r.FirstAvailable {
			if s.covers(c, i, j) {
				r.FirstAvailable[j].Selectors = append(r.FirstAvailable[j].Selectors, selector)
			}
		}
	}
}

func gpuClass() *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	return class
}

// question is the case as it is asked.
func (s *small) question() gang.Question {
	core := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	classes := allocator.ClassMap(gpuClass())
	q := gang.Question{
		Compile: func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
			return core.Compile(claims, classes)
		},
		State: s.state(), Min: s.least, Group: s.group(),
		Room: func(node int, pods []int) bool { return s.hasRoom(node, pods) },
	}
	for n := range s.nodes {
		node := &corev1.Node{}
		node.Name = fmt.Sprint("node-", n)
		node.Labels = map[string]string{corev1.LabelHostname: node.Name}
		q.Nodes = append(q.Nodes, node)
	}
	objects := make([]*resourceapi.ResourceClaim, len(s.claims))
	for i, c := range s.claims {
		objects[i] = c.object(fmt.Sprint("claim-", i))
		s.limit(i, objects[i])
	}
	for i, own := range s.pods {
		var claims []*resourceapi.ResourceClaim
		for _, c := range own {
			claims = append(claims, objects[c])
		}
		pod := gang.Pod{Kind: fmt.Sprint("kind-", s.kinds[i], " with ", len(own), " claims"), Variants: [][]*resourceapi.ResourceClaim{claims}}
		pod.Variant = func(node int) int {
			if slices.Contains(s.away[s.kinds[i]], node) {
				return -1
			}
			return 0
		}
		q.Pods = append(q.Pods, pod)
	}
	return q
}

func (s *small) hasRoom(node int, pods []int) bool {
	need := 0
	for _, pod := range pods {
		need += s.cpu[s.kinds[pod]]
	}
	return need <= s.room[node]
}

// String shows a case that failed.
func (s *small) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d nodes, room %v, counters %v, away %v, at least %d, across %+v\n", s.nodes, s.room, s.counters, s.away, s.least, s.across)
	for i, d := range s.devices {
		fmt.Fprintf(&text, "device %d: %+v\n", i, d)
	}
	for i, own := range s.pods {
		fmt.Fprintf(&text, "pod %d of kind %d (CPU %d):", i, s.kinds[i], s.cpu[s.kinds[i]])
		for _, c := range own {
			fmt.Fprintf(&text, " %d%+v", c, s.claims[c])
		}
		text.WriteByte('\n')
	}
	return text.String()
}

func ask(t *testing.T, q gang.Question) *gang.Result {
	t.Helper()
	r, err := gang.Ask(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
