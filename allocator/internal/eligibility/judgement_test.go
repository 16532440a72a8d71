// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/memo"
)

// unlikeShapes differ from each other in what decides an allocation: a selector's attribute, what there
// is of a capacity, how it is written, and each part of its policy.
func unlikeShapes() []*shape.Shape {
	q := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	policies := []*resourceapi.CapacityRequestPolicy{
		nil,
		{},
		{Default: q("4Gi")},
		{Default: q("4096Mi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{}},
		{Default: q("8Gi")},
		{Default: q("8Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("4Gi")}},
		{Default: q("8Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("16Gi")}},
		{Default: q("8Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("4Gi"), Max: q("6Gi")}},
		{Default: q("8Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("4Gi"), Step: q("6Gi")}},
		{Default: q("8Gi"), ValidValues: []resource.Quantity{*q("8Gi"), *q("12Gi")}},
		{Default: q("8Gi"), ValidValues: []resource.Quantity{*q("8Gi"), *q("20Gi")}},
		{Default: q("8Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("4Gi"), Max: q("6Gi"), Step: q("2Gi")}},
		{Default: q("8Gi"), ValidValues: []resource.Quantity{*q("4Gi"), *q("6Gi"), *q("2Gi")}},
		{ValidValues: []resource.Quantity{*q("8Gi"), *q("20Gi")}},
		{ValidValues: []resource.Quantity{*q("8Gi"), *q("20Gi")}, ValidRange: &resourceapi.CapacityRequestPolicyRange{}},
	}
	var shapes []*shape.Shape
	for _, model := range []string{"a", "b"} {
		for _, total := range []string{"5Gi", "80Gi", "85899345920", "1e30"} {
			for _, multiple := range []*bool{nil, ptr.To(true)} {
				for _, policy := range policies {
					shapes = append(shapes, &shape.Shape{Driver: "driver", Device: &resourceapi.Device{
						Attributes:               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To(model)}},
						Capacity:                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *q(total), RequestPolicy: policy}},
						AllowMultipleAllocations: multiple,
					}})
				}
			}
		}
	}
	return shapes
}

func spelled(j *Judgement) string {
	if j.Use == nil {
		return fmt.Sprint(j.Offer)
	}
	text := fmt.Sprint(j.Offer, j.Use.Refusal, j.Use.Err)
	for _, part := range j.Use.Parts {
		text += fmt.Sprint(part.Name, part.Quantity.String(), part.Quantity.Format, part.Taken, part.Total)
	}
	return text
}

// The remembered judgement of a shape is that of an evaluator without memory.
func TestJudgementsAreRemembered(t *testing.T) {
	features := Features{ConsumableCapacity: true}
	programs := cel.NewCache(8)
	class := &resourceapi.DeviceClass{}
	selectors := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["driver"].model == "a"`}}}
	shared := NewEvaluator(features, programs, memo.Bounds{Results: 64, Selections: 8, Problems: 8})
	for _, asked := range []string{"", "1Gi", "7Gi", "7516192768", "30Gi"} {
		terms := Terms{Offers: []Offer{{Class: class, Selectors: selectors}}}
		if asked != "" {
			terms.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(asked)}}
		}
		judge := func(e *Evaluator, of *shape.Shape) string {
			f, err := filterOf(e, terms)
			if err != nil {
				t.Fatal(err)
			}
			j, err := e.Judge(t.Context(), f, of)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := e.Judge(t.Context(), f, of); err != nil || again != j {
				t.Fatalf("%q: the judgement is not remembered, error %v", asked, err)
			}
			return spelled(j)
		}
		for i, of := range unlikeShapes() {
			if got, want := judge(shared, of), judge(NewEvaluator(features, programs, memo.Bounds{Results: 64, Selections: 8, Problems: 8}), of); got != want {
				t.Errorf("asked %q, shape %d: remembered %s, want %s", asked, i, got, want)
			}
		}
	}
}

// A projection numbers a limited count of shapes. Others are judged without being remembered, and the next
// problem gets a new projection, by what its selectors say of shapes.
func TestProjectionsAreBounded(t *testing.T) {
	e := NewEvaluator(Features{ConsumableCapacity: true}, cel.NewCache(8), memo.Bounds{Results: 64, Selections: 8, Problems: 8})
	terms := Terms{Offers: []Offer{{Class: &resourceapi.DeviceClass{}, Selectors: []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["driver"].serial >= 0`}},
	}}}}
	filter := func() *Filter {
		f, err := filterOf(e, terms)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	serial := func(n int64) *shape.Shape {
		return &shape.Shape{Driver: "driver", Device: &resourceapi.Device{
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"serial": {IntValue: &n}},
		}}
	}
	first, another, rejected := filter(), serial(1<<20), serial(-1)
	var last *shape.Shape
	for n := range int64(maxNumbers + 1) {
		last = serial(n)
		if j, err := e.Judge(t.Context(), first, last); err != nil || j.Rejects() {
			t.Fatalf("shape %d: %+v, error %v", n, j, err)
		}
	}
	if number := first.projection.Number(t.Context(), last); number != 0 || !first.projection.Full() {
		t.Errorf("the last shape has the number %d", number)
	}
	second := filter()
	if second.Selection != first.Selection {
		t.Error("a selection is not used again")
	}
	verdicts := e.Projection([]*Filter{second}, Reads{})
	if a, b := verdicts.Number(t.Context(), last), verdicts.Number(t.Context(), rejected); a == 0 || b == 0 || a == b || a != verdicts.Number(t.Context(), another) {
		t.Errorf("shapes have the numbers %d, %d (rejected) and %d", a, b, verdicts.Number(t.Context(), another))
	}
	if e.Projection([]*Filter{filter()}, Reads{}) != verdicts {
		t.Error("the same question has another projection")
	}
	if verdicts.Full() {
		t.Error("there is nothing beyond verdicts")
	}
}

// Problems with the same filters share a projection, whatever the order of their requests.
func TestProjectionsOfTheSameFilters(t *testing.T) {
	e := NewEvaluator(Features{}, cel.NewCache(8), memo.Bounds{Results: 64, Selections: 8, Problems: 8})
	var filters []*Filter
	for _, least := range []int{1, 2} {
		f, err := filterOf(e, Terms{Offers: []Offer{{Class: &resourceapi.DeviceClass{}, Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[device.driver].size >= %d", least)}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		if f.reads != nil {
			t.Fatal("the selector is one of which it is known what it reads")
		}
		filters = append(filters, f)
	}
	a, b := filters[0], filters[1]
	want := e.Projection([]*Filter{a, b}, Reads{})
	if e.Projection([]*Filter{b, a}, Reads{}) != want || e.Projection([]*Filter{b, a, b}, Reads{}) != want {
		t.Error("other orders have another projection")
	}
	if e.Projection([]*Filter{a}, Reads{}) == want || e.Projection([]*Filter{b}, Reads{}) == want {
		t.Error("one filter has the projection of two")
	}
}
