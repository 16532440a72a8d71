// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// mixed is a random cluster of two or three nodes with a random question. Nodes have GPUs, some with two halves each (shared counters), and NICs.
// Pods ask for whole GPUs, halves, GPUs of one model, a GPU and a NIC of one NUMA node, claims for both, a list of
// alternatives, all devices, or CPU alone. Some share a claim, or ask for a device that all nodes reach. Some questions have GPUs that the nodes of a zone reach.
type mixed struct {
	random *rand.Rand
	simulate.Cluster
	kinds []string // names of templates, and cpu
	costs map[string]float64
}

// newMixed draws the cluster of a seed, without pods.
func newMixed(seed uint64) *mixed {
	m := &mixed{random: rand.New(rand.NewPCG(seed, 29)), costs: make(map[string]float64)}
	m.Cluster = gpuCluster(1+m.random.IntN(4), 1+m.random.IntN(4), m.random.IntN(3))
	if m.random.IntN(3) == 0 {
		m.Nodes, m.Slices = m.Nodes[:2], m.Slices[:2]
	}
	m.addDevices()
	m.addTemplates()
	for i, node := range m.Nodes {
		node.Labels = map[string]string{"zone": fmt.Sprint(i % 2)}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(fmt.Sprint(3 + m.random.IntN(6))), corev1.ResourcePods: resource.MustParse(fmt.Sprint(3 + m.random.IntN(4))),
		}
	}
	m.kinds = []string{"1", "2"}
	for _, kind := range []string{"3", "half", "half", "model", "pair", "claims", "list", "cpu", "free-choice"} {
		if m.random.IntN(3) == 0 {
			m.kinds = append(m.kinds, kind)
		}
	}
	m.addShared(rand.New(rand.NewPCG(seed, 30)))
	m.addFabric(rand.New(rand.NewPCG(seed, 31)))
	m.addAll(rand.New(rand.NewPCG(seed, 32)))
	return m
}

// addShared adds kinds of pods that share a claim, and devices that all nodes reach. It draws from a source of its own, so that questions
// without them stay as they are.
func (m *mixed) addShared(random *rand.Rand) {
	if random.IntN(3) == 0 {
		m.kinds = append(m.kinds, "shared", "also-shared")
	}
	if random.IntN(3) == 0 {
		m.kinds = append(m.kinds, "remote", "second-port", "ports")
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = "default", "shared"
	for _, template := range m.Templates {
		if template.Name == "1" {
			claim.Spec = template.Spec.Spec
		}
	}
	m.Claims = append(m.Claims, claim)
	addPorts(&m.Cluster, 1+random.IntN(3))
}

// addAll adds kinds of pods that ask for all GPUs, or all devices, to some questions: a claim with one request, or two. It draws from a source of its own, too.
func (m *mixed) addAll(random *rand.Rand) {
	for _, name := range []string{"all", "all-parts", "all-of-both"} {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", name
		for _, class := range map[string][]string{"all": {"gpu"}, "all-parts": {"part"}, "all-of-both": {"gpu", "nic"}}[name] {
			template.Spec.Spec.Devices.Requests = append(template.Spec.Spec.Devices.Requests, resourceapi.DeviceRequest{
				Name: class, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeAll},
			})
		}
		m.Templates = append(m.Templates, template)
		if random.IntN(5) == 0 {
			m.kinds = append(m.kinds, name, name)
		}
	}
}

// addFabric adds a pool of GPUs to some questions, which the nodes of one zone reach beside their own. It draws from a source of its own, too.
func (m *mixed) addFabric(random *rand.Rand) {
	if random.IntN(4) > 0 {
		return
	}
	model := fmt.Sprint(random.IntN(2))
	slice := &resourceapi.ResourceSlice{}
	slice.Name = []string{"a-fabric", "z-fabric"}[random.IntN(2)] // before or after the nodes' own
	slice.Spec = resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: slice.Name, Generation: 1, ResourceSliceCount: 1},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint(random.IntN(2))}},
		}}}},
	}
	for i := range 1 + random.IntN(2) {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("far-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: &model}, "resource.kubernetes.io/numaNode": {StringValue: ptr.To(fmt.Sprint(i))},
		}})
	}
	m.Slices = append(m.Slices, slice)
}

// addPorts adds a pool of network ports that all nodes reach, and templates: "remote" for any port, "second-port" for that one, and "ports" for the
// first one, or else the third.
func addPorts(c *simulate.Cluster, count int) {
	class, slice := &resourceapi.DeviceClass{}, &resourceapi.ResourceSlice{}
	class.Name, slice.Name = "net", "net"
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "net.example.com"`}}}
	slice.Spec = resourceapi.ResourceSliceSpec{Driver: "net.example.com", AllNodes: ptr.To(true), Pool: resourceapi.ResourcePool{Name: "net", Generation: 1, ResourceSliceCount: 1}}
	for i := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("port-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"number": {IntValue: ptr.To(int64(i))},
		}})
	}
	c.Classes, c.Slices = append(c.Classes, class), append(c.Slices, slice)
	port := func(number int) []resourceapi.DeviceSelector {
		return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["net.example.com"].number == %d`, number)}}}
	}
	exact := func(selectors []resourceapi.DeviceSelector) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: "net", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "net", Selectors: selectors, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		}}
	}
	add := func(name string, request resourceapi.DeviceRequest) {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", name
		template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{request}
		c.Templates = append(c.Templates, template)
	}
	add("remote", exact(nil))
	add("second-port", exact(port(1)))
	add("ports", resourceapi.DeviceRequest{Name: "net", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "first", DeviceClassName: "net", Selectors: port(0), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		{Name: "third", DeviceClassName: "net", Selectors: port(2), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}})
}

// addDevices gives GPUs models and NUMA nodes, adds NICs, and divides the GPUs of some nodes.
func (m *mixed) addDevices() {
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	var divided simulate.Cluster
	divided.Templates = m.Templates
	rest := m.Slices
	m.Slices = nil
	share := m.random.IntN(3)
	for _, slice := range rest {
		nics := slice.DeepCopy()
		nics.Name += "-nics"
		nics.Spec.Driver, nics.Spec.Devices = "nic.example.com", nil
		for i := range 1 + m.random.IntN(2) {
			nics.Spec.Devices = append(nics.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("nic-%d", i)})
		}
		m.Slices = append(m.Slices, nics)
		if m.random.IntN(2) < share {
			divided.Slices = append(divided.Slices, slice)
		} else {
			m.Slices = append(m.Slices, slice)
		}
	}
	divide(&divided)
	m.Slices, m.Templates = append(m.Slices, divided.Slices...), divided.Templates
	for _, slice := range m.Slices {
		model := fmt.Sprint(m.random.IntN(2))
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if device.Attributes == nil {
				device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
			}
			device.Attributes["model"], device.Attributes["resource.kubernetes.io/numaNode"] = text(model), text(fmt.Sprint(i%2))
		}
	}
}

// addTemplates adds the templates of the kinds, and classes for what they ask for.
func (m *mixed) addTemplates() {
	for name, expression := range map[string]string{
		"gpu":  `device.driver == "gpu.example.com" && !has(device.attributes["gpu.example.com"].half)`,
		"part": `device.driver == "gpu.example.com"`,
		"nic":  `device.driver == "nic.example.com"`,
	} {
		class := &resourceapi.DeviceClass{}
		class.Name = name
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		m.Classes = slices.DeleteFunc(m.Classes, func(c *resourceapi.DeviceClass) bool { return c.Name == name })
		m.Classes = append(m.Classes, class)
	}
	ask := func(name, class, selector string) resourceapi.DeviceRequest {
		exact := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
		if selector != "" {
			exact.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
		}
		return resourceapi.DeviceRequest{Name: name, Exactly: exact}
	}
	add := func(name string, spec resourceapi.DeviceClaim) {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name, template.Spec.Spec.Devices = "default", name, spec
		m.Templates = slices.DeleteFunc(m.Templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Name == name })
		m.Templates = append(m.Templates, template)
	}
	one := func(requests ...resourceapi.DeviceRequest) resourceapi.DeviceClaim {
		return resourceapi.DeviceClaim{Requests: requests}
	}
	add("half", one(ask("half", "part", `has(device.attributes["gpu.example.com"].half)`)))
	add("model", one(ask("gpu", "gpu", `device.attributes["gpu.example.com"].model == "1"`)))
	add("nic", one(ask("nic", "nic", "")))
	add("free-choice", one(ask("gpu", "part", "")))
	pair := one(ask("gpu", "gpu", ""), ask("nic", "nic", ""))
	pair.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("resource.kubernetes.io/numaNode"))}}
	add("pair", pair)
	add("list", one(resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "many", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(2 + m.random.IntN(3))},
		{Name: "one", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}))
}

// pod draws a pod.
func (m *mixed) pod(name string) *corev1.Pod {
	kind := m.kinds[m.random.IntN(len(m.kinds))]
	pod := gpuPod(name, 1)
	pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = &kind
	switch kind {
	case "cpu":
		pod.Spec.ResourceClaims = nil
	case "shared":
		pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: ptr.To("shared")}
	case "also-shared":
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "common", ResourceClaimName: ptr.To("shared")}, {Name: "nics", ResourceClaimTemplateName: ptr.To("nic")}}
	case "claims":
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = ptr.To("1")
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "nics", ResourceClaimTemplateName: ptr.To("nic")})
	}
	if cpu := m.random.IntN(3); cpu > 0 {
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(cpu))},
		}}}
	}
	if m.random.IntN(6) == 0 {
		pod.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(m.random.IntN(2))}
	}
	return pod
}

// cost draws what it costs to move a pod: a whole number, a fraction, nothing, or what keeps it where it is, such as a higher priority.
func (m *mixed) cost() float64 {
	switch m.random.IntN(8) {
	case 0:
		return math.Inf(1)
	case 1:
		return 0
	case 2:
		return float64(1+m.random.IntN(9)) / 10
	case 3:
		return 1.0 / 3
	}
	return float64(1 + m.random.IntN(3))
}

// question draws wanted pods, costs and limits. Of some draws, the first wanted pod is one that fits, but only where no pods run. Of others, the wanted
// pods fit before the pods that run go to other nodes, and not after that. The State is that with the pods where they are.
func (m *mixed) question(t *testing.T, empty *simulate.State, sim *simulate.Sim, pods []*corev1.Pod) (*simulate.State, moves.Question) {
	q := moves.Question{Nodes: names(&m.Cluster), Attempts: 1000, Cost: func(pod *corev1.Pod) float64 { return m.costs[pod.Name] }}
	whole := m.random.IntN(2) == 0
	for _, pod := range pods {
		if m.costs[pod.Name] = m.cost(); whole {
			m.costs[pod.Name] = 1
		}
	}
	for range m.random.IntN(3) {
		limit := moves.Limit{Out: m.random.IntN(3)}
		for _, pod := range pods {
			if m.random.IntN(2) == 0 {
				limit.Pods = append(limit.Pods, pod)
			}
		}
		q.Limits = append(q.Limits, limit)
	}
	if m.random.IntN(3) == 0 {
		q.Topologies = []simulate.Topology{{NodeLabel: "zone"}}
	}
	if m.random.IntN(4) > 0 {
		for range 20 {
			if q.Wanted = m.wanted(); m.fit(t, sim.State(), q.Wanted) && m.scatter(t, sim, pods, q.Wanted) {
				return sim.State(), q
			}
		}
	}
	for range 8 {
		q.Wanted = m.wanted()
		if m.fit(t, empty, q.Wanted[:1]) && !m.fit(t, sim.State(), q.Wanted[:1]) {
			break
		}
	}
	return sim.State(), q
}

// wanted draws wanted pods: one, or some of which the others are often like the first.
func (m *mixed) wanted() []*corev1.Pod {
	list := []*corev1.Pod{m.pod("wanted-0")}
	for i := range m.random.IntN(5) / 2 {
		pod := m.pod("")
		if m.random.IntN(2) == 0 {
			pod = list[0].DeepCopy()
		}
		pod.Name = fmt.Sprintf("wanted-%d", i+1)
		list = append(list, pod)
	}
	return list
}

// scatter lets pods go to other nodes, or two of them change places, until the wanted ones no longer fit. If they always do, it changes nothing.
func (m *mixed) scatter(t *testing.T, sim *simulate.Sim, pods, wanted []*corev1.Pod) bool {
	on := make(map[*corev1.Pod]string)
	for _, node := range names(&m.Cluster) {
		at, err := sim.State().Node(node)
		if err != nil {
			t.Fatal(err)
		}
		for pod := range sim.State().Pods(at) {
			on[pod] = node
		}
	}
	sim.Fork()
	for range 4 * len(pods) {
		a, b := pods[m.random.IntN(len(pods))], pods[m.random.IntN(len(pods))]
		to := map[*corev1.Pod]string{a: m.Nodes[m.random.IntN(len(m.Nodes))].Name}
		if m.random.IntN(2) == 0 {
			to = map[*corev1.Pod]string{a: on[b], b: on[a]}
		}
		if sim.Fork(); !m.relocate(t, sim, pods, to) {
			sim.Revert()
			continue
		}
		maps.Copy(on, to)
		if sim.Commit(); !m.fit(t, sim.State(), wanted) {
			sim.Commit()
			return true
		}
	}
	sim.Revert()
	return false
}

// relocate evicts pods, and puts them on other nodes. It reports whether they fit there.
func (m *mixed) relocate(t *testing.T, sim *simulate.Sim, pods []*corev1.Pod, to map[*corev1.Pod]string) bool {
	for pod := range to {
		if err := sim.Evict(pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		if to[pod] == "" {
			continue
		}
		node, err := sim.State().Node(to[pod])
		if err != nil {
			t.Fatal(err)
		}
		result, err := sim.Put(t.Context(), pod, node)
		if err != nil {
			t.Fatal(err)
		}
		if !result.All() {
			return false
		}
	}
	return true
}

// fit reports whether pods fit one after the other, each on the first node that will do.
func (m *mixed) fit(t *testing.T, state *simulate.State, pods []*corev1.Pod) bool {
	sim := state.Sim()
	for _, pod := range pods {
		result, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			t.Fatal(err)
		}
		if !result.All() {
			return false
		}
	}
	return true
}
