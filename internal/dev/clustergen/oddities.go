// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// oddities change a case that is complete: values that the API allows, or that stored objects may
// have, and that nobody thinks of. They come last, so that they leave the rest of the case as it is.
var oddities = []func(*generator){
	(*generator).repeatNames, (*generator).respell, (*generator).repeatElements, (*generator).selectOddly,
	(*generator).tolerateOddly, (*generator).emptyBinding, (*generator).configureNothing, (*generator).constrainUnknown,
	(*generator).shareOddly, (*generator).overdraw, (*generator).prolong, (*generator).strayDefaults,
}

func (g *generator) addOddities() {
	for range 1 + g.intn(4) {
		pick(g, oddities...)(g)
	}
	pick(g, accepted...)(g)
}

// repeatNames gives devices an attribute with and without the domain of their driver, and in capitals, and
// versions that differ in what has no precedence. No expression reads them.
func (g *generator) repeatNames() {
	for _, placed := range g.placed {
		attributes, driver := placed.device.Attributes, placed.slice.Spec.Driver
		for _, name := range []string{"slot", "Slot", driver + "/slot", gpuDriver + "/slot"} {
			if g.chance(0.7) {
				attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(g.intn(2)))}
			}
		}
		attributes["release"] = resourceapi.DeviceAttribute{VersionValue: ptr.To(pick(g, "1.0.0", "1.0.0+a", "1.0.0+b"))}
	}
	g.constrain(pick(g, "/slot", "/Slot", "/release"), nil)
}

// constrain adds a constraint on an attribute of a driver to some claim with requests.
func (g *generator) constrain(id string, names []string) {
	claim := pick(g, g.c.Claims...)
	if devices := &claim.Spec.Devices; len(devices.Requests) > 0 {
		devices.Constraints = append(devices.Constraints, g.constraint(pick(g, g.drivers...)+id, names))
	}
}

// respell writes quantities in thousandths.
func (g *generator) respell() {
	respelled := func(q resource.Quantity) resource.Quantity {
		if value := q.Value(); !g.chance(0.5) || value > 1<<50 || value < -1<<50 {
			return q
		}
		return resource.MustParse(fmt.Sprintf("%dm", q.MilliValue()))
	}
	for _, placed := range g.placed {
		for name, capacity := range ordered(placed.device.Capacity) {
			capacity.Value = respelled(capacity.Value)
			if policy := capacity.RequestPolicy; policy != nil {
				if policy.Default != nil {
					policy.Default = ptr.To(respelled(*policy.Default))
				}
				for i := range policy.ValidValues {
					policy.ValidValues[i] = respelled(policy.ValidValues[i])
				}
			}
			placed.device.Capacity[name] = capacity
		}
	}
	for _, claim := range g.c.Claims {
		for i := range claim.Spec.Devices.Requests {
			if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil && exactly.Capacity != nil {
				for name, q := range ordered(exactly.Capacity.Requests) {
					exactly.Capacity.Requests[name] = respelled(q)
				}
			}
		}
	}
}

// repeatElements has lists name an element twice.
func (g *generator) repeatElements() {
	for _, placed := range g.placed {
		for name, attribute := range ordered(placed.device.Attributes) {
			if n := len(attribute.IntValues); n > 0 {
				attribute.IntValues = append(attribute.IntValues, attribute.IntValues[g.intn(n)])
				placed.device.Attributes[name] = attribute
			}
		}
	}
}

// selectOddly gives a slice for all nodes a selector with rarer operators, and takes labels from a node.
func (g *generator) selectOddly() {
	for _, node := range g.c.Nodes {
		if node.Labels = map[string]string{"zone": "east", "size": pick(g, "2", "5", "large")}; g.chance(0.2) {
			node.Labels = nil
		}
	}
	for _, slice := range g.c.Slices {
		if !ptr.Deref(slice.Spec.AllNodes, false) {
			continue
		}
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{pick(g,
			corev1.NodeSelectorRequirement{Key: "size", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
			corev1.NodeSelectorRequirement{Key: "size", Operator: corev1.NodeSelectorOpLt, Values: []string{"3"}},
			corev1.NodeSelectorRequirement{Key: "arm", Operator: corev1.NodeSelectorOpDoesNotExist},
		)}}
		if g.chance(0.5) {
			term.MatchFields = []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{g.otherNode()},
			}}
		}
		slice.Spec.AllNodes, slice.Spec.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
	}
}

// tolerateOddly adds tolerations with seconds, and with an operator that is left out or unknown.
func (g *generator) tolerateOddly() {
	for _, placed := range g.placed {
		if g.chance(0.2) {
			placed.device.Taints = g.taints()
		}
	}
	for _, claim := range g.c.Claims {
		for i := range claim.Spec.Devices.Requests {
			if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil {
				exactly.Tolerations = append(exactly.Tolerations, resourceapi.DeviceToleration{
					Key: pick(g, "", "broken.example.com", "reserved.example.com"), Value: pick(g, "", "team-a"),
					Operator: pick(g, "", "", resourceapi.DeviceTolerationOpExists, "FromTheFuture"), TolerationSeconds: ptr.To(int64(g.intn(3) - 1)),
				})
			}
		}
	}
}

// emptyBinding gives a device a list of binding conditions without any: its pool comes last.
func (g *generator) emptyBinding() {
	if len(g.placed) > 0 {
		pick(g, g.placed...).device.BindingConditions = []string{}
	}
}

// configureNothing adds a claim without requests, and with configurations.
func (g *generator) configureNothing() {
	claim := g.newClaim("claim")
	for _, names := range [][]string{nil, {"r0"}, {"r0/s0", "r1"}} {
		claim.Spec.Devices.Config = append(claim.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
			Requests: names, DeviceConfiguration: configuration("nothing"),
		})
	}
	g.c.Claims = append(g.c.Claims, claim)
}

// constrainUnknown has a constraint name requests that the claim does not have.
func (g *generator) constrainUnknown() {
	g.constrain("/numa", slices.Concat(pick(g, nil, []string{"r0"}), pick(g, []string{"r9"}, []string{"r0/s9"}, []string{"s0"})))
}

// shareOddly has a device in use as a whole and in a share, which has a capacity that the device does not have.
func (g *generator) shareOddly() {
	if len(g.placed) == 0 {
		return
	}
	placed := pick(g, g.placed...)
	for range 1 + g.intn(2) {
		g.allocate(placed.slice.Spec.Driver, placed.slice.Spec.Pool.Name, placed.device)
		result := &g.c.Allocated[len(g.c.Allocated)-1].Status.Allocation.Devices.Results[0]
		if result.ShareID = nil; g.chance(0.7) {
			result.ShareID = ptr.To(types.UID(fmt.Sprintf("20000000-0000-0000-0000-%012d", g.claimUIDs)))
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"strange": quantity("1"), "memory": quantity("1Gi")}
		}
	}
}

// overdraw has counters of nothing and devices that consume less than nothing.
func (g *generator) overdraw() {
	for _, slice := range g.c.Slices {
		for _, set := range slice.Spec.SharedCounters {
			for name := range ordered(set.Counters) {
				if g.chance(0.3) {
					set.Counters[name] = resourceapi.Counter{Value: quantity("0")}
				}
			}
		}
	}
	for _, placed := range g.placed {
		for _, consumption := range placed.device.ConsumesCounters {
			for name := range ordered(consumption.Counters) {
				if g.chance(0.3) {
					consumption.Counters[name] = resourceapi.Counter{Value: quantity(pick(g, "-1", "-2500m", "0"))}
				}
			}
		}
	}
}

// prolong repeats alternatives, under other names, up to as many as there may be.
func (g *generator) prolong() {
	for _, claim := range g.c.Claims {
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			for n := len(request.FirstAvailable); 0 < n && n < resourceapi.FirstAvailableDeviceRequestMaxSize; n++ {
				again := request.FirstAvailable[g.intn(n)].DeepCopy()
				again.Name = fmt.Sprintf("s%d", n)
				request.FirstAvailable = append(request.FirstAvailable, *again)
			}
		}
	}
}

// strayDefaults has policies of a device with defaults that they do not allow otherwise, in two spellings.
func (g *generator) strayDefaults() {
	if len(g.placed) == 0 {
		return
	}
	for _, capacity := range ordered(pick(g, g.placed...).device.Capacity) {
		if policy := capacity.RequestPolicy; policy != nil {
			policy.Default = quantityPtr(pick(g, "1500m", "3", "3000m", "5Gi"))
		}
	}
}
