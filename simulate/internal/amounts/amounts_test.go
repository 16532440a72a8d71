// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package amounts

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var names = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, "example.com/gpu"}

// TestRoom compares with subtracting pods from quantities until one is negative.
func TestRoom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[int64]int{}
	for range 20_000 {
		resources := NewResources()
		list := corev1.ResourceList{}
		for _, name := range names {
			if r.IntN(4) > 0 {
				list[name] = *resource.NewMilliQuantity(int64(r.IntN(9))*1000, resource.DecimalSI)
			}
		}
		pod := func() *corev1.Pod {
			requests := corev1.ResourceList{}
			for _, name := range names {
				if r.IntN(2) == 0 && name != corev1.ResourcePods {
					requests[name] = *resource.NewMilliQuantity(int64(r.IntN(3))*1000, resource.DecimalSI)
				}
			}
			return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
		}
		there, next := pod(), pod()
		fromDevices := []corev1.ResourceName{"example.com/gpu"}[:r.IntN(2)]
		used := Add(nil, resources.Needs(there, nil), 1)
		got := Room(resources.Of(list), used, resources.Needs(next, fromDevices), 5)
		if want := slowRoom(list, there, next, fromDevices, 5); got != want {
			t.Fatalf("%v, in use %v, asked %v without %v: room for %d, want %d", list, there.Spec, next.Spec, fromDevices, got, want)
		}
		seen[got]++
	}
	for n := range int64(6) {
		if seen[n] == 0 {
			t.Errorf("never room for %d", n)
		}
	}
}

func slowRoom(list corev1.ResourceList, there, next *corev1.Pod, fromDevices []corev1.ResourceName, limit int64) int64 {
	if len(list) == 0 {
		return limit
	}
	asks := func(pod *corev1.Pod, name corev1.ResourceName) int64 {
		if name == corev1.ResourcePods {
			return 1000
		}
		q := pod.Spec.Containers[0].Resources.Requests[name]
		return q.MilliValue()
	}
	for n := int64(0); ; n++ {
		if n == limit {
			return n
		}
		for _, name := range names {
			more := asks(next, name)
			if more == 0 || slices.Contains(fromDevices, name) {
				continue
			}
			has, listed := list[name]
			if !listed && name == corev1.ResourcePods {
				continue
			}
			if has.MilliValue()-asks(there, name)-n*more < more {
				return n
			}
		}
	}
}

func TestAmounts(t *testing.T) {
	resources := NewResources()
	if n := resources.Number(corev1.ResourcePods); n != 0 {
		t.Errorf("pods have number %d", n)
	}
	cpu := resources.Number(corev1.ResourceCPU)
	if again := resources.Number(corev1.ResourceCPU); again != cpu || resources.Name(cpu) != corev1.ResourceCPU || resources.Name(99) != "" {
		t.Errorf("numbers %d and %d, names %q and %q", cpu, again, resources.Name(cpu), resources.Name(99))
	}
	if got := resources.Of(nil); got != nil {
		t.Errorf("an empty list is %v", got)
	}
	list := resources.Of(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")})
	if !slices.Equal(list, []int64{NotListed, 1500}) {
		t.Errorf("1500m of cpu are %v", list)
	}
	if q := Quantity(corev1.ResourceCPU, 1500); q.String() != "1500m" {
		t.Errorf("1500 thousandths are %s", q.String())
	}
	if q := Quantity(corev1.ResourceMemory, 1500); q.String() != "1500" {
		t.Errorf("1500 bytes are %s", q.String())
	}
	used := []int64{1, 1000}
	if got := Add(used, []Demand{{cpu, 500}, {3, 2}}, 1); !slices.Equal(got, []int64{1, 1500, 0, 2}) || !slices.Equal(used, []int64{1, 1000}) {
		t.Errorf("added: %v, before: %v", got, used)
	}
	if got := AddInPlace(used, []Demand{{cpu, 500}}, -1); got[1] != 500 || used[1] != 500 {
		t.Errorf("taken away in place: %v, %v", got, used)
	}
}

// TestWithoutZeros: zeros at the end go, and no others.
func TestWithoutZeros(t *testing.T) {
	for _, test := range []struct{ list, want []int64 }{
		{nil, nil}, {[]int64{0}, nil}, {[]int64{0, 0}, nil}, {[]int64{1}, []int64{1}}, {[]int64{0, 1}, []int64{0, 1}},
		{[]int64{2, 0, -1, 0, 0}, []int64{2, 0, -1}},
	} {
		if got := WithoutZeros(slices.Clone(test.list)); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.list, got, test.want)
		}
	}
}
