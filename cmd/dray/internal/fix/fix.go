// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Fix is a change with which a workload can be placed.
type Fix struct {
	// Change describes the change: "request gpu: count 3 instead of 4".
	Change string
	// Node is where the workload can then be placed.
	Node string
	// Manifest is the changed ResourceClaim, or the ResourceClaimTemplate that it is made from. It
	// has no fields that an API server sets.
	Manifest map[string]any
}

// Find returns the first change that helps a workload that could not be placed on the nodes. It is
// nil if none does: the claims cannot be changed, or no single change is enough. If undecided is set
// then, that is not certain. The error is the context's, or about a node selector of a slice.
func Find(ctx context.Context, c *cluster.Cluster, refused *cluster.Placement, nodes []*corev1.Node) (found *Fix, undecided bool, err error) {
	w := refused.Workload
	taints, err := taintsOf(c)
	if err != nil {
		return nil, false, err
	}
	for _, claim := range refused.Before {
		if claim == nil || claim.Status.Allocation != nil || claim.Annotations[extension.Annotation] != "" || c.IsExtended(claim) {
			continue // it is allocated already, or no manifest contains it
		}
		for _, change := range changes(&claim.Spec, c.Classes(), taints) {
			changed := claim.DeepCopy()
			changed.Spec = *change.spec
			placement, err := c.PlaceWith(ctx, w, nodes, changed)
			if err != nil {
				return nil, false, err
			}
			if placement.Placed() {
				fields, err := manifest(c, w, changed)
				return &Fix{Change: change.text, Node: placement.Node, Manifest: fields}, false, err
			}
			undecided = undecided || placement.MayFit()
		}
	}
	return nil, undecided, nil
}

// manifest returns the claim, or its template, as a user would write it.
func manifest(c *cluster.Cluster, w cluster.Workload, claim *resourceapi.ResourceClaim) (map[string]any, error) {
	var object any = &resourceapi.ResourceClaim{TypeMeta: typeOf("ResourceClaim"), ObjectMeta: written(&claim.ObjectMeta), Spec: claim.Spec}
	template := c.Template(w, claim)
	if template != nil {
		changed := &resourceapi.ResourceClaimTemplate{TypeMeta: typeOf("ResourceClaimTemplate"), ObjectMeta: written(&template.ObjectMeta), Spec: *template.Spec.DeepCopy()}
		changed.Spec.Spec = claim.Spec
		object = changed
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	if metadata, found, _ := unstructured.NestedMap(fields, "spec", "metadata"); found && len(metadata) == 0 {
		unstructured.RemoveNestedField(fields, "spec", "metadata")
	}
	return fields, nil
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: kind}
}

// written returns the metadata that users write.
func written(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: meta.Name, Namespace: meta.Namespace, Labels: meta.Labels, Annotations: meta.Annotations}
}

// String returns one line.
func (f *Fix) String() string {
	return fmt.Sprintf("%s: then it can be placed on node %s", f.Change, f.Node)
}
