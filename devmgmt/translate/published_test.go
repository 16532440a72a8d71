// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/devmgmt/translate"
)

// publishedCluster has what the prototype's published examples ask for, on a node with two NUMA nodes and three
// PCIe roots.
const publishedCluster = `
- kind: DevicePool
  metadata: {name: gpus}
  spec:
    driver: gpu.example.com
    devices:
    - {name: g0, attributes: [{name: model, stringValue: a100}, {name: numa, stringValue: "0"}, {name: pcie-root, stringValue: "0"}]}
    - {name: g1, attributes: [{name: model, stringValue: a100}, {name: numa, stringValue: "0"}, {name: pcie-root, stringValue: "1"}]}
    - {name: g2, attributes: [{name: model, stringValue: a100}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
    - {name: g3, attributes: [{name: model, stringValue: a100}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
    - {name: s0, attributes: [{name: model, stringValue: l4}, {name: numa, stringValue: "0"}, {name: pcie-root, stringValue: "0"}]}
    - {name: s1, attributes: [{name: model, stringValue: l4}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
    - {name: s2, attributes: [{name: model, stringValue: l4}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
- kind: DevicePool
  metadata: {name: mps}
  spec:
    driver: mps.example.com
    devices: [{name: m0, resources: [{name: memory, capacity: 16Gi, blockSize: 1Gi}]}]
- kind: DevicePool
  metadata: {name: nics-a}
  spec:
    driver: a.example.com
    attributes: [{name: vendor, stringValue: a}]
    devices:
    - {name: vf0, attributes: [{name: kind, stringValue: vf}, {name: pf, stringValue: p0}, {name: numa, stringValue: "0"}, {name: pcie-root, stringValue: "1"}]}
    - {name: vf1, attributes: [{name: kind, stringValue: vf}, {name: pf, stringValue: p0}, {name: numa, stringValue: "0"}, {name: pcie-root, stringValue: "1"}]}
    - {name: vf2, attributes: [{name: kind, stringValue: vf}, {name: pf, stringValue: p1}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
    - {name: vf3, attributes: [{name: kind, stringValue: vf}, {name: pf, stringValue: p1}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
    - {name: p9, attributes: [{name: kind, stringValue: pf}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]}
- kind: DevicePool
  metadata: {name: nics-b}
  spec:
    driver: b.example.com
    attributes: [{name: vendor, stringValue: b}, {name: pf, stringValue: p0}, {name: numa, stringValue: "1"}, {name: pcie-root, stringValue: "2"}]
    devices: [{name: vf0}, {name: vf1}, {name: vf2}, {name: vf3}]
- {kind: DeviceClass, metadata: {name: a100}, spec: {driver: gpu.example.com, deviceType: gpu, constraints: device.model == "a100"}}
- {kind: DeviceClass, metadata: {name: h100}, spec: {driver: gpu.example.com, deviceType: gpu, constraints: device.model == "h100"}}
- {kind: DeviceClass, metadata: {name: l4}, spec: {driver: gpu.example.com, deviceType: gpu, constraints: device.model == "l4"}}
- {kind: DeviceClass, metadata: {name: h100-mps}, spec: {driver: mps.example.com, deviceType: mps}}
- {kind: DeviceClass, metadata: {name: a-vf}, spec: {driver: a.example.com, deviceType: sriov-vf, constraints: device.kind == "vf"}}
- {kind: DeviceClass, metadata: {name: b-vf}, spec: {driver: b.example.com, deviceType: sriov-vf}}
- {kind: DeviceClass, metadata: {name: a-pf}, spec: {driver: a.example.com, deviceType: sriov-pf, constraints: device.kind == "pf"}}
`

// TestPublishedExamples has the claims of the snippets of pod specs that were published with the prototype, one by
// one, and what each gives. The snippets left out apiVersion, and count was beside the class in some.
func TestPublishedExamples(t *testing.T) {
	for _, test := range []struct{ name, spec, want string }{
		{"four VFs of a vendor", `{claims: [{deviceClass: a-vf, requests: {count: 4}}]}`, "claim-0 nics-a/vf0, claim-0 nics-a/vf1, claim-0 nics-a/vf2, claim-0 nics-a/vf3"},
		{"four VFs of one PF, of any vendor", `{claims: [{deviceType: sriov-vf, requests: {count: 4}, matchAttributes: [vendor, pf]}]}`,
			"claim-0 nics-b/vf0, claim-0 nics-b/vf1, claim-0 nics-b/vf2, claim-0 nics-b/vf3"},
		{"two GPUs on one PCIe root", `{claims: [{deviceClass: a100, requests: {count: 2}, matchAttributes: [pcie-root]}]}`, "claim-0 gpus/g2, claim-0 gpus/g3"},
		{"two GPUs on one PCIe root, apart", `{matchAttributes: [pcie-root], claims: [{deviceClass: a100}, {deviceClass: a100}]}`, "claim-0 gpus/g2, claim-1 gpus/g3"},
		{"a GPU and a PF of any vendor on one PCIe root", `{matchAttributes: [pcie-root], claims: [{deviceClass: a100}, {deviceType: sriov-pf}]}`, "claim-0 gpus/g2, claim-1 nics-a/p9"},
		{"a large GPU, or two small ones on one PCIe root", `{claims: [{oneOf: [{deviceClass: a100}, {deviceClass: h100}, {deviceClass: l4, requests: {count: 2}, matchAttributes: [pcie-root]}]}]}`,
			"claim-0/option-0 gpus/g0"},
		{"the last alternative", `{claims: [{oneOf: [{deviceClass: h100}, {deviceClass: l4, requests: {count: 2}, matchAttributes: [pcie-root]}]}]}`,
			"claim-0/option-1 gpus/s1, claim-0/option-1 gpus/s2"},
		{"a VF of any vendor and GPUs, all on one NUMA node and PCIe root", `{matchAttributes: [numa, pcie-root], claims: [{deviceType: sriov-vf},
			{oneOf: [{deviceClass: a100}, {deviceClass: h100}, {deviceClass: l4, requests: {count: 2}}]}]}`, "claim-0 nics-a/vf0, claim-1/option-0 gpus/g1"},
		{"a part of a GPU", `{claims: [{deviceClass: h100-mps, requests: {memory: 8Gi}}]}`, "claim-0 mps/m0 memory=8589934592"},
		{"four VFs of four PFs", `{claims: [{deviceType: sriov-vf, requests: {count: 4}, matchAttributes: [vendor], distinctAttributes: [pf]}]}`, `unknown field "distinctAttributes"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := "- {kind: DeviceClaim, metadata: {namespace: ns, name: q}, spec: " + test.spec + "}\n"
			var list struct {
				Items []json.RawMessage `json:"items"`
			}
			if err := yaml.Unmarshal([]byte("items:"+publishedCluster+claim), &list); err != nil {
				t.Fatal(err)
			}
			content, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			in := readPrototype(content)
			if strings.HasPrefix(test.want, "unknown") {
				var strict struct {
					Spec any `json:"spec"`
				}
				strict.Spec = &in.Claims[0].Spec
				if err := yaml.UnmarshalStrict([]byte("spec: "+test.spec), &strict); err == nil || !strings.Contains(err.Error(), "distinctAttributes") {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			out, reasons := translate.ToExtended(in)
			if len(reasons) > 0 || len(in.Claims) != 1 {
				t.Fatalf("%d claims, %v", len(in.Claims), reasons)
			}
			got := strings.ReplaceAll(newCore(out).allocate(t, out.Claims[0]), " admin=false", "")
			judged := strings.ReplaceAll(describeChoices(newJudge(in).allocate(in.Claims[0])), " admin=false", "")
			if got != test.want || judged != test.want {
				t.Errorf("got  %s\nwant %s\nby trying everything %s", got, test.want, judged)
			}
		})
	}
}
