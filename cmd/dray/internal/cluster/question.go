// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
)

// refused caches refusals since the last Keep. Pods with equal requests are refused for the same
// reasons.
type refused struct {
	by    map[string]*Placement // by Question
	nodes []*corev1.Node        // the nodes of these placements
}

// find returns an earlier placement for a question about these nodes, or nil.
func (r *refused) find(question string, nodes []*corev1.Node) *Placement {
	if !sameNodes(r.nodes, nodes) {
		return nil
	}
	return r.by[question]
}

func (r *refused) remember(question string, nodes []*corev1.Node, p *Placement) {
	if r.by == nil || !sameNodes(r.nodes, nodes) {
		*r = refused{make(map[string]*Placement), nodes}
	}
	r.by[question] = p
}

// sameNodes reports whether two slices are identical.
func sameNodes(a, b []*corev1.Node) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// question returns everything that Place reads of a pod, as text. It leaves out names that only
// occur in messages. It is empty for claims without a pod.
func (a *attempt) question() string {
	pod := a.workload.Pod
	if pod == nil {
		return ""
	}
	type asked struct {
		NameInPod string
		// Existing is the name of an existing claim. Spec is that of a new one.
		Existing string
		Spec     *resourceapi.ResourceClaimSpec
		More     string
	}
	read := struct {
		NodeFit     string
		Needs       map[corev1.ResourceName]string
		Extended    []corev1.ResourceName
		FromDevices []resourceapi.DeviceRequest // for Extended
		Claims      []asked
	}{NodeFit: nodefit.Key(pod), Needs: make(map[corev1.ResourceName]string), Extended: a.extended}
	for _, n := range a.needs {
		read.Needs[n.name] = n.quantity.String()
	}
	read.FromDevices, _ = podclaims.AllExtendedRequests(pod, a.extended, a.cluster.classOf)
	for _, claim := range a.claims {
		one := asked{NameInPod: a.cluster.NameInPod(a.workload, claim)}
		if a.cluster.claims.Claim(keyOf(claim)) != nil {
			one.Existing = keyOf(claim).String()
		} else {
			one.Spec, one.More = &claim.Spec, claim.Annotations[extension.Annotation]
		}
		read.Claims = append(read.Claims, one)
	}
	text, err := json.Marshal(read)
	if err != nil {
		return "" // encoding cannot fail; if it did, the pod would be asked about by itself
	}
	return string(text)
}
