// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

const (
	here      = "here" // the node that is asked about
	elsewhere = "elsewhere"
	ratio     = 3 // one in so many cases is out of the ordinary
)

var drivers = []string{"a.example.com", "b.example.com"}

// sometimes is true in one of ratio draws.
func sometimes(t *rapid.T, what string) bool { return rapid.IntRange(1, ratio).Draw(t, what) == ratio }

func quantityOf(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

// drawPrototype draws a small cluster. Most draws have a translation. Those of a driver that
// shares devices are about resources of devices, others about partitions.
func drawPrototype(t *rapid.T) translate.Prototype {
	var p translate.Prototype
	sharing := map[string]bool{drivers[1]: sometimes(t, "sharing")}
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		driver := rapid.SampledFrom(drivers).Draw(t, "driver")
		pool := &v1alpha1.DevicePool{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.DevMgmtAPIVersion, Kind: "DevicePool"},
			ObjectMeta: metav1.ObjectMeta{Name: "pool-" + strconv.Itoa(i)},
		}
		if sometimes(t, "labels") {
			pool.Labels = map[string]string{"rack": "r1"}
		}
		pool.Spec = drawPool(t, driver, sharing[driver])
		v1alpha1.SetPoolDefaults(pool)
		p.Pools = append(p.Pools, pool)
	}
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "d.example.com/v1", "kind": "Config", "metadata": map[string]any{"namespace": "ns", "name": "c"}, "mode": "fast",
	}}
	p.Referents = []*unstructured.Unstructured{config}
	for i, driver := range drivers {
		for j := range 2 {
			p.Classes = append(p.Classes, drawClass(t, fmt.Sprintf("class-%d-%d", i, j), driver, j == 1 && sometimes(t, "admin")))
		}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "claims") {
		p.Claims = append(p.Claims, drawClaim(t, "claim-"+strconv.Itoa(i), p.Classes, sharing))
	}
	return p
}

func drawPool(t *rapid.T, driver string, shared bool) v1alpha1.DevicePoolSpec {
	spec := v1alpha1.DevicePoolSpec{Driver: driver}
	if rapid.IntRange(0, 3).Draw(t, "node") > 0 {
		spec.NodeName = ptr.To(rapid.SampledFrom([]string{here, here, here, here, here, elsewhere}).Draw(t, "name of the node"))
	}
	partitions := !shared && sometimes(t, "partitions")
	if partitions {
		spec.Resources = []v1alpha1.ResourceCapacity{
			{Name: "units", Capacity: *resource.NewQuantity(rapid.Int64Range(1, 6).Draw(t, "units"), resource.DecimalSI)},
			{Name: "memory", Capacity: resource.MustParse("10Gi"), BlockSize: quantityOf(rapid.SampledFrom([]string{"1", "4Gi", "1536Mi"}).Draw(t, "block"))},
		}
	}
	if rapid.Bool().Draw(t, "version") {
		spec.Attributes = append(spec.Attributes, v1alpha1.Attribute{Name: "version", SemVerValue: ptr.To(v1alpha1.SemVer("1.2.0"))})
	}
	spec.Attributes = append(spec.Attributes, v1alpha1.Attribute{Name: "model", StringValue: ptr.To(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "model"))})
	for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
		device := v1alpha1.Device{Name: "d" + strconv.Itoa(i), Attributes: []v1alpha1.Attribute{{Name: "numa", IntValue: ptr.To(rapid.IntRange(0, 1).Draw(t, "numa"))}}}
		if sometimes(t, "override") {
			device.Attributes = append(device.Attributes, v1alpha1.Attribute{Name: "model", StringValue: ptr.To("z")})
		}
		if rapid.Bool().Draw(t, "slot") {
			device.Attributes = append(device.Attributes, v1alpha1.Attribute{Name: "topo.example.com/slot", IntValue: ptr.To(rapid.IntRange(0, 1).Draw(t, "slot number"))})
		}
		switch {
		case shared:
			device.Resources = []v1alpha1.ResourceCapacity{{Name: "bandwidth", Capacity: resource.MustParse(rapid.SampledFrom([]string{"5", "8", "10"}).Draw(t, "bandwidth")),
				BlockSize: quantityOf(rapid.SampledFrom([]string{"1", "3"}).Draw(t, "block"))}}
		case partitions:
			device.Requests = map[string]resource.Quantity{
				"units":  *resource.NewQuantity(rapid.Int64Range(0, 4).Draw(t, "units taken"), resource.DecimalSI),
				"memory": resource.MustParse(rapid.SampledFrom([]string{"1Gi", "3Gi", "5Gi"}).Draw(t, "memory taken")),
			}
		default:
			device.Attributes = append(device.Attributes, v1alpha1.Attribute{Name: "size", QuantityValue: quantityOf(rapid.SampledFrom([]string{"1Gi", "1024Mi", "2Gi"}).Draw(t, "size"))})
		}
		spec.Devices = append(spec.Devices, device)
	}
	return spec
}

// expressions never fail on a device: which device an error is about depends on where the search
// looks first.
var expressions = []string{
	`device.model == "x"`, `device.model != 'z'`, `device.numa == 0 || device["model"] == "y"`, `"version" in device`,
	`has(device.version) && device.version.isGreaterThan(semver("1.0.0"))`, `has(device.size) && device.size.compareTo(quantity("1Gi")) == 0`,
	`"topo.example.com/slot" in device && device["topo.example.com/slot"] == 1`, `[0, 1].exists(n, n == device.numa)`, `!has(device.nothing)`,
	`device.?version.orValue(semver("2.0.0")).major() == 1`,
}

func drawExpression(t *rapid.T) *string {
	if !sometimes(t, "some devices") {
		return nil
	}
	return ptr.To(rapid.SampledFrom(expressions).Draw(t, "expression"))
}

func drawClass(t *rapid.T, name, driver string, admin bool) *v1alpha1.DeviceClass {
	class := &v1alpha1.DeviceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.DevMgmtAPIVersion, Kind: "DeviceClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.DeviceClassSpec{Driver: driver, DeviceType: "gpu", Constraints: drawExpression(t)},
	}
	if admin || sometimes(t, "says no") {
		class.Spec.AdminAccess = &admin
	}
	if sometimes(t, "config") {
		class.Spec.Configs = []v1alpha1.DeviceClassConfigReference{{APIVersion: "d.example.com/v1", Kind: "Config", Namespace: "ns", Name: "c"}}
	}
	return class
}

func drawClaim(t *rapid.T, name string, classes []*v1alpha1.DeviceClass, sharing map[string]bool) *v1alpha1.DeviceClaim {
	claim := &v1alpha1.DeviceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.DevMgmtAPIVersion, Kind: "DeviceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
	}
	for range rapid.IntRange(1, 2).Draw(t, "parts") {
		var instance v1alpha1.DeviceClaimInstance
		if sometimes(t, "alternatives") {
			for range rapid.IntRange(1, 2).Draw(t, "options") {
				instance.OneOf = append(instance.OneOf, drawDetail(t, classes, sharing))
			}
		} else {
			instance.DeviceClaimDetail = drawDetail(t, classes, sharing)
		}
		claim.Spec.Claims = append(claim.Spec.Claims, instance)
	}
	if sometimes(t, "match all") {
		claim.Spec.MatchAttributes = []string{rapid.SampledFrom([]string{"model", "topo.example.com/slot"}).Draw(t, "matched")}
	}
	v1alpha1.SetClaimDefaults(claim)
	return claim
}

func drawDetail(t *rapid.T, classes []*v1alpha1.DeviceClass, sharing map[string]bool) v1alpha1.DeviceClaimDetail {
	class := rapid.SampledFrom(classes).Draw(t, "class")
	detail := v1alpha1.DeviceClaimDetail{DeviceClass: &class.Name, Constraints: drawExpression(t)}
	one := resource.MustParse("1")
	switch {
	case sharing[class.Spec.Driver] && rapid.Bool().Draw(t, "takes"):
		detail.Requests = map[string]resource.Quantity{"bandwidth": resource.MustParse(rapid.SampledFrom([]string{"0", "2", "2500m", "4", "9"}).Draw(t, "taken"))}
		detail.Limits = map[string]resource.Quantity{v1alpha1.ResourceCount: one}
	case sharing[class.Spec.Driver]:
	case rapid.Bool().Draw(t, "several"):
		count := *resource.NewQuantity(rapid.Int64Range(1, 3).Draw(t, "count"), resource.DecimalSI)
		detail.Requests = map[string]resource.Quantity{v1alpha1.ResourceCount: count}
		if sometimes(t, "limited") {
			detail.Limits = detail.Requests
		}
	}
	if sometimes(t, "match") {
		detail.MatchAttributes = []string{rapid.SampledFrom([]string{"numa", "model", "version", "topo.example.com/slot"}).Draw(t, "matched")}
	}
	if sometimes(t, "config") {
		detail.Configs = []v1alpha1.DeviceConfigReference{{APIVersion: "d.example.com/v1", Kind: "Config", Name: "c"}}
	}
	return detail
}
