// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
)

// changing is a small cluster of which anything may change. Names are few, so that objects come, go and refer to each other.
type changing struct {
	*rand.Rand
	c      Cluster
	number int
}

const extendedName = corev1.ResourceName("example.com/gpu")

func newChanging(seed uint64) *changing {
	g := &changing{Rand: rand.New(rand.NewPCG(seed, 77))}
	for i := range 4 {
		g.c.Nodes = append(g.c.Nodes, g.node(i))
		if i < 3 || g.IntN(2) == 0 {
			g.c.Slices = append(g.c.Slices, g.slice(i))
		}
	}
	g.c.Slices = append(g.c.Slices, g.network())
	g.c.Classes = []*resourceapi.DeviceClass{g.class("gpu"), g.class("net")}
	for i := range 3 {
		g.c.Templates = append(g.c.Templates, g.template(i))
	}
	g.c.PodGroups = []*schedulingapi.PodGroup{g.group()}
	for i := range g.IntN(8) {
		g.c.Pods = append(g.c.Pods, g.pod(i))
	}
	for i := range 14 {
		if g.IntN(2) == 0 {
			g.c.Claims = append(g.c.Claims, g.claim(i))
		}
	}
	return g
}

func (g *changing) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *changing) node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{"n": fmt.Sprint(i)}}}
	if g.IntN(4) > 0 {
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(g.one("2", "4")), "pods": resource.MustParse("5")}
		if g.IntN(4) == 0 {
			n.Status.Allocatable[extendedName] = resource.MustParse("2")
		}
	}
	return n
}

func (g *changing) slice(i int) *resourceapi.ResourceSlice {
	node := fmt.Sprint("n", i)
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpu-" + node}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for d := range 2 + g.IntN(3) {
		device := resourceapi.Device{Name: fmt.Sprint("d", d)}
		if g.IntN(3) == 0 {
			device.AllowMultipleAllocations = ptr.To(true)
			device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("4")}}
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return s
}

func (g *changing) network() *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "net"}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: "net.example.com", AllNodes: ptr.To(true), Pool: resourceapi.ResourcePool{Name: "net", Generation: 1, ResourceSliceCount: 1}}
	for d := range 3 {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("d", d), BindsToNode: ptr.To(d == 1)})
	}
	return s
}

func (g *changing) class(name string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", name+".example.com")}}}
	if name == "gpu" && g.IntN(3) > 0 {
		c.Spec.ExtendedResourceName = ptr.To(string(extendedName))
	}
	return c
}

func (g *changing) spec(class string, count int64) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}}}}
}

func (g *changing) template(i int) *resourceapi.ResourceClaimTemplate {
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("t", i)}}
	t.Spec.Spec = g.spec([]string{"gpu", "gpu", "net"}[i], int64(1+g.IntN(2)))
	return t
}

func (g *changing) group() *schedulingapi.PodGroup {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "group", UID: "group"}}
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("t0")}}
	if g.IntN(2) == 0 {
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim{Name: "named", ResourceClaimName: ptr.To("c0")})
	}
	return group
}

// names are those of pods, of which each has one UID or another.
func (g *changing) podMeta(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("uid-", i, g.one("", "", "", "-other")))}
}

func (g *changing) pod(i int) *corev1.Pod {
	g.number++
	p := &corev1.Pod{ObjectMeta: g.podMeta(i)}
	p.ResourceVersion = fmt.Sprint(g.number)
	p.Spec.NodeName = g.one("", "n0", "n1", "n2", "n3", "n0", "n1")
	if g.IntN(25) == 0 {
		p.Spec.NodeName = "nowhere"
	}
	if g.IntN(8) == 0 {
		p.Status.Phase = corev1.PodSucceeded
	}
	requests := corev1.ResourceList{"cpu": resource.MustParse(g.one("0", "100m", "1"))}
	if g.IntN(5) == 0 {
		requests[extendedName] = resource.MustParse("1")
		if g.IntN(2) == 0 {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: g.one("c1", "c2", "missing")}
		}
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}}
	for k := range g.IntN(3) {
		entry := corev1.PodResourceClaim{Name: []string{"x", "named"}[k]}
		if k == 0 {
			entry.ResourceClaimTemplateName = ptr.To(g.one("t0", "t0", "t1", "t2", "missing"))
		} else {
			entry.ResourceClaimName = ptr.To(g.one("c0", "c0", "c1", "c2", "c3"))
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, entry)
		switch status := (corev1.PodResourceClaimStatus{Name: entry.Name}); {
		case k > 0:
		case g.IntN(3) == 0:
			status.ResourceClaimName = ptr.To(fmt.Sprint("p", i, "-x"))
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status)
		case g.IntN(8) == 0:
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status)
		}
	}
	if g.IntN(3) == 0 {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	}
	return p
}

// claim is one that users made, one of a pod, or that of the group.
func (g *changing) claim(i int) *resourceapi.ResourceClaim {
	g.number++
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i), UID: types.UID(fmt.Sprint(g.number))}}
	c.Spec = g.spec(g.one("gpu", "gpu", "net"), int64(1+g.IntN(2)))
	switch {
	case i == 13:
		c.Name = "group-x"
		c.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: "x"}
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "PodGroup", Name: "group", UID: "group", Controller: ptr.To(true)}}
	case i >= 5:
		owner := g.podMeta(i - 5)
		c.Name = owner.Name + "-x"
		if g.IntN(12) == 0 {
			c.Name += "-again"
		}
		if g.IntN(8) > 0 {
			c.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: "x"}
		}
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
	}
	if g.IntN(12) == 0 {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, extension.Annotation, g.one(`{"upTo": 3}`, `{"requests": {"r": {"upTo": 3}}}`)) // the first is faulty
	}
	if g.IntN(12) == 0 {
		c.DeletionTimestamp = ptr.To(metav1.Now())
	}
	for range g.IntN(3) {
		c.Status.ReservedFor = append(c.Status.ReservedFor, g.consumer())
	}
	if g.IntN(3) > 0 {
		g.allocate(c)
	}
	return c
}

func (g *changing) consumer() resourceapi.ResourceClaimConsumerReference {
	switch g.IntN(6) {
	case 0:
		return resourceapi.ResourceClaimConsumerReference{APIGroup: schedulingapi.GroupName, Resource: "podgroups", Name: "group", UID: "group"}
	case 1:
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "elsewhere", UID: "elsewhere"}
	}
	m := g.podMeta(g.IntN(8))
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: m.Name, UID: m.UID}
}

func (g *changing) allocate(c *resourceapi.ResourceClaim) {
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for range 1 + g.IntN(2) {
		r := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "gpu.example.com", Pool: g.one("n0", "n1", "n2", "n3"), Device: g.one("d0", "d1", "d2")}
		switch g.IntN(8) {
		case 0:
			r.Driver, r.Pool = "net.example.com", "net"
		case 1:
			r.Driver, r.Pool = "late.example.com", g.one("late", "n0")
		case 2:
			r.AdminAccess = ptr.To(true)
		case 3, 4:
			r.ShareID = ptr.To(types.UID(fmt.Sprint("share-", g.number)))
			r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1")}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
	}
	switch g.IntN(10) {
	case 0, 1, 2:
		c.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "n", Operator: corev1.NodeSelectorOpIn, Values: []string{g.one("0", "1", "2")}}},
		}}}
	case 3:
		c.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "n", Operator: "Faulty"}},
		}}}
	}
}

// pending are pods that have no node, and one of each template.
func (g *changing) pending() []*corev1.Pod {
	pods := slices.DeleteFunc(slices.Clone(g.c.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	for _, name := range []string{"t0", "t2"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new-" + name}}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To(name)}, {Name: "named", ResourceClaimName: ptr.To("c0")}}
		pods = append(pods, p)
	}
	return pods
}

// change draws some changes, and does them to the lists.
func (g *changing) change(seen map[string]int) Changes {
	var c Changes
	for range 1 + g.IntN(3) {
		what := g.draw(&c)
		seen[what]++
	}
	for _, claim := range c.Set.Claims {
		if a := claim.Status.Allocation; a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return r.Driver == "late.example.com" }) {
			seen["unlisted"]++
		}
	}
	g.c = naive(g.c, c)
	if len(g.c.Pods) > 0 && slices.ContainsFunc(g.c.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "nowhere" }) {
		seen["fault"]++
	}
	return c
}

func (g *changing) draw(c *Changes) string {
	switch n := g.IntN(40); {
	case n < 12:
		i := g.IntN(8)
		c.Set.Pods = append(c.Set.Pods, g.pod(i))
		if g.IntN(6) == 0 {
			c.Gone.Pods = append(c.Gone.Pods, c.Set.Pods[len(c.Set.Pods)-1])
			return "pod again"
		}
		return "pod set"
	case n < 14 && len(g.c.Pods) > 0: // the same pod, as it was or with a label
		p := g.c.Pods[g.IntN(len(g.c.Pods))].DeepCopy()
		p.Labels = map[string]string{"changed": "yes"}
		c.Set.Pods = append(c.Set.Pods, p)
		return "pod set"
	case n < 18:
		c.Gone.Pods = append(c.Gone.Pods, &corev1.Pod{ObjectMeta: g.podMeta(g.IntN(8))})
		return "pod gone"
	case n < 27:
		c.Set.Claims = append(c.Set.Claims, g.claim(g.IntN(14)))
		if g.IntN(6) == 0 {
			c.Gone.Claims = append(c.Gone.Claims, c.Set.Claims[len(c.Set.Claims)-1])
			return "claim again"
		}
		return "claim set"
	case n < 30 && len(g.c.Claims) > 0: // as the scheduler allocates, or somebody gives back
		claim := g.c.Claims[g.IntN(len(g.c.Claims))].DeepCopy()
		if claim.Status.Allocation == nil {
			g.allocate(claim)
		} else {
			claim.Status.Allocation = nil
		}
		c.Set.Claims = append(c.Set.Claims, claim)
		return "claim set"
	case n < 34:
		c.Gone.Claims = append(c.Gone.Claims, g.claim(g.IntN(14)))
		return "claim gone"
	case n == 34:
		c.Set.Nodes = append(c.Set.Nodes, g.node(g.IntN(5)))
		if g.IntN(3) == 0 {
			c.Set.Nodes, c.Gone.Nodes = nil, append(c.Gone.Nodes, g.node(g.IntN(5)))
		}
		return "nodes"
	case n == 35:
		c.Set.Slices = append(c.Set.Slices, g.slice(g.IntN(4)))
		if g.IntN(3) == 0 {
			c.Set.Slices, c.Gone.Slices = nil, append(c.Gone.Slices, g.slice(g.IntN(4)))
		}
		return "slices"
	case n == 36:
		c.Set.Templates = append(c.Set.Templates, g.template(g.IntN(3)))
		return "templates"
	case n == 37:
		c.Set.Classes = append(c.Set.Classes, g.class("gpu"))
		return "classes"
	case n == 38:
		c.Set.PodGroups = append(c.Set.PodGroups, g.group())
		if g.IntN(3) == 0 {
			c.Set.PodGroups, c.Gone.PodGroups = nil, append(c.Gone.PodGroups, g.group())
		}
		return "groups"
	}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com"), Device: ptr.To(g.one("d0", "d1"))}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if c.Set.TaintRules = append(c.Set.TaintRules, rule); g.IntN(2) == 0 {
		c.Set.TaintRules, c.Gone.TaintRules = nil, append(c.Gone.TaintRules, rule)
	}
	return "rules"
}
