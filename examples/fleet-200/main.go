// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fleet-200 writes the YAML of this example: a fleet of 200 nodes of several kinds, with
// most GPUs in use, and pending pods. The output is deterministic.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

//go:generate go run .

// fleet has the generated objects.
type fleet struct {
	nodes   []any
	classes []any
	slices  []any
	claims  []any
	pending []any
	draws   int
}

func main() {
	f := &fleet{}
	f.addClasses()
	for _, k := range kinds {
		for i := 1; i <= k.count; i++ {
			f.addNode(k, i)
		}
	}
	f.addPending()
	for file, objects := range map[string][]any{
		"nodes.yaml": f.nodes, "classes.yaml": f.classes, "slices.yaml": f.slices, "claims.yaml": f.claims, "pending.yaml": f.pending,
	} {
		if err := write(file, objects); err != nil {
			log.Fatal(err)
		}
	}
}

// draw returns the next pseudo-random value. The sequence is always the same.
func (f *fleet) draw() [sha256.Size]byte {
	f.draws++
	return sha256.Sum256(fmt.Appendf(nil, "fleet-200/%d", f.draws))
}

func (f *fleet) below(n int) int {
	drawn := f.draw()
	return int(binary.BigEndian.Uint32(drawn[:]) % uint32(n))
}

func (f *fleet) uid() types.UID {
	drawn := f.draw()
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", drawn[:4], drawn[4:6], drawn[6:8], drawn[8:10], drawn[10:16]))
}

func (f *fleet) addNode(k kind, number int) {
	name := fmt.Sprintf("%s-%03d", k.name, number)
	zone := fmt.Sprintf("zone-%c", 'a'+number%3)
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, "example.com/node-kind": k.name,
		}},
	}
	if k.gpus > 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Spec.Unschedulable = k.cordonedEvery > 0 && number%k.cordonedEvery == 0
	f.nodes = append(f.nodes, node)
	if k.gpus == 0 {
		return
	}
	f.slices = append(f.slices, gpuSlice(k, name, number))
	if k.nics > 0 {
		f.slices = append(f.slices, nicSlice(k, name))
	}
	f.occupy(k, name)
}

// occupy allocates GPUs of each NUMA node to running pods, so that the fleet is fragmented as in
// reality.
func (f *fleet) occupy(k kind, node string) {
	perNUMA := k.gpus / 2
	for numa := range 2 {
		first := numa * perNUMA
		take := k.leastTaken + f.below(perNUMA-k.leastTaken+1)
		for i := 0; i < take; {
			size := min(take-i, 1+f.below(2))
			f.addRunning(node, first+i, size)
			i += size
		}
	}
}

func (f *fleet) addRunning(node string, first, size int) {
	number := len(f.claims)
	var results []resourceapi.DeviceRequestAllocationResult
	for g := first; g < first+size; g++ {
		results = append(results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: gpuDriver, Pool: node, Device: fmt.Sprintf("gpu-%d", g),
		})
	}
	claim := newClaim("running", fmt.Sprintf("job-%03d-gpu", number), request("gpu", gpuClass, int64(size), ""))
	claim.UID = f.uid()
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status = resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{
			Devices:      resourceapi.DeviceAllocationResult{Results: results},
			NodeSelector: onNode(node),
		},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{
			{Resource: "pods", Name: fmt.Sprintf("job-%03d", number), UID: f.uid()},
		},
	}
	f.claims = append(f.claims, claim)
}

func onNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}
}

func newClaim(namespace, name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

func request(name, class string, count int64, selector string) resourceapi.DeviceRequest {
	exactly := &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}
	if selector != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: exactly}
}

// noise matches empty fields that the API types write.
var noise = regexp.MustCompile(`,?"(status|spec)":\{\}|,"creationTimestamp":null`)

// write writes one YAML document per object, in flow style, with one line per device.
func write(file string, objects []any) error {
	var out bytes.Buffer
	out.WriteString("# Code generated by examples/fleet-200. DO NOT EDIT.\n")
	for i, object := range objects {
		encoded, err := json.Marshal(object)
		if err != nil {
			return err
		}
		encoded = noise.ReplaceAll(encoded, nil)
		encoded = bytes.ReplaceAll(encoded, []byte(`{"name":"gpu-`), []byte("\n  {\"name\":\"gpu-"))
		encoded = bytes.ReplaceAll(encoded, []byte(`{"name":"nic-`), []byte("\n  {\"name\":\"nic-"))
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(encoded)
		out.WriteByte('\n')
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func attribute[T string | int64 | bool](value T) resourceapi.DeviceAttribute {
	switch value := any(value).(type) {
	case int64:
		return resourceapi.DeviceAttribute{IntValue: &value}
	case bool:
		return resourceapi.DeviceAttribute{BoolValue: &value}
	}
	return resourceapi.DeviceAttribute{StringValue: ptr.To(any(value).(string))}
}
