// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/validation"
)

// rule is an object and what is wrong with it, one error per line; empty if it is fine.
type rule struct {
	name   string
	object runtime.Object
	want   string
}

func checkRules(t *testing.T, rules []rule) {
	t.Helper()
	checker := validation.New(validation.Programs{Cache: cel.NewCache(100)}, true)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			input.SetDefaults(r.object)
			var got []string
			for _, err := range checker.Object(r.object) {
				got = append(got, err.Error())
			}
			var want []string
			if r.want != "" {
				want = strings.Split(r.want, "\n")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// parse panics on mistakes, which are in the tables.
func parse[T any](manifest string) *T {
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
		panic(fmt.Sprintf("%v in:\n%s", err, manifest))
	}
	return object
}

// sliceOf is a ResourceSlice with such a spec, in YAML flow style without the braces.
func sliceOf(spec string) *resourceapi.ResourceSlice {
	return parse[resourceapi.ResourceSlice]("{metadata: {name: s}, spec: {driver: gpu.example.com, pool: {name: n, generation: 1, resourceSliceCount: 1}, " + spec + "}}")
}

// deviceOf is a slice of one device named d.
func deviceOf(fields string) *resourceapi.ResourceSlice {
	return sliceOf("nodeName: n, devices: [{name: d, " + fields + "}]")
}

// policyOf is a slice of one device that has 10 of a capacity, with a policy for requests.
func policyOf(policy string) *resourceapi.ResourceSlice {
	return deviceOf("allowMultipleAllocations: true, capacity: {c: {value: 10, requestPolicy: {" + policy + "}}}")
}

func classOf(spec string) *resourceapi.DeviceClass {
	return parse[resourceapi.DeviceClass]("{metadata: {name: c}, spec: {" + spec + "}}")
}

// claimOf is a claim with such devices, and requests a, b and p, which has the
// alternatives x and y.
func claimOf(devices string) *resourceapi.ResourceClaim {
	return parse[resourceapi.ResourceClaim]("{metadata: {name: c}, spec: {devices: {requests: [" +
		"{name: a, exactly: {deviceClassName: gpu}}, {name: b, exactly: {deviceClassName: gpu}}, " +
		"{name: p, firstAvailable: [{name: x, deviceClassName: gpu}, {name: y, deviceClassName: gpu}]}], " + devices + "}}}")
}

// requestOf is a claim with one request of class gpu, named a.
func requestOf(fields string) *resourceapi.ResourceClaim {
	return parse[resourceapi.ResourceClaim]("{metadata: {name: c}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, " + fields + "}}]}}}")
}

// requestsOf is a claim with such requests.
func requestsOf(requests string) *resourceapi.ResourceClaim {
	return parse[resourceapi.ResourceClaim]("{metadata: {name: c}, spec: {devices: {requests: [" + requests + "]}}}")
}

// statusOf is a claim with one request, named a, and such a status.
func statusOf(status string) *resourceapi.ResourceClaim {
	return parse[resourceapi.ResourceClaim]("{metadata: {name: c}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}, status: {" + status + "}}")
}

func podOf(spec string) *corev1.Pod {
	return parse[corev1.Pod]("{metadata: {name: p}, spec: {" + spec + "}}")
}

func taintRuleOf(spec string) *resourceapi.DeviceTaintRule {
	return parse[resourceapi.DeviceTaintRule]("{metadata: {name: r}, spec: {" + spec + "}}")
}

// listOf repeats a YAML entry; %d in it counts from 0.
func listOf(n int, entry string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = strings.ReplaceAll(entry, "%d", fmt.Sprint(i))
	}
	return strings.Join(entries, ", ")
}

// counting is what a device has that consumes counters.
const counting = "consumesCounters: [{counterSet: s, counters: {c: {value: 1}}}]"

// selectedBy is a slice for the nodes of a selector with such terms.
func selectedBy(terms string) *resourceapi.ResourceSlice {
	return sliceOf("nodeSelector: {nodeSelectorTerms: [" + terms + "]}")
}

// derivedOf is a claim whose request a has these derived attributes, and which compares those named a.example.com/n0 to n31.
func derivedOf(attributes string) *resourceapi.ResourceClaim {
	claim := requestOf("derivedAttributes: [" + attributes + "]")
	for i := range resourceapi.DeviceConstraintsMaxSize {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(fmt.Sprintf("a.example.com/n%d", i)))})
	}
	return claim
}
