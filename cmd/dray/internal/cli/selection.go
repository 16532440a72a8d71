// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// selection selects the pods and claims that a command handles.
type selection struct {
	origin         *origin
	allNamespaces  bool
	labels, fields string

	labelSelector labels.Selector
	fieldSelector fields.Selector
}

func (s *selection) addTo(flags *pflag.FlagSet) {
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "all namespaces, which is the default for files")
	flags.StringVarP(&s.labels, "selector", "l", "", "pods and claims with these labels only, as in app=trainer")
	flags.StringVar(&s.fields, "field-selector", "", "pods with these fields only: metadata.name, metadata.namespace, spec.nodeName, spec.schedulerName, status.phase")
}

// parse parses the selectors.
func (s *selection) parse() error {
	var err error
	if s.labelSelector, err = labels.Parse(s.labels); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if s.fieldSelector, err = fields.ParseSelector(s.fields); err != nil {
		return fmt.Errorf("--field-selector: %w", err)
	}
	for _, requirement := range s.fieldSelector.Requirements() {
		if !podFields(&corev1.Pod{}).Has(requirement.Field) {
			return fmt.Errorf("--field-selector: unknown field %s", requirement.Field)
		}
	}
	return nil
}

func podFields(pod *corev1.Pod) fields.Set {
	return fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName,
		"spec.schedulerName": pod.Spec.SchedulerName, "status.phase": string(pod.Status.Phase),
	}
}

// covers reports whether a workload is selected.
func (s *selection) covers(c *cluster.Cluster, w cluster.Workload) bool {
	if !s.coversNamespace(w.Key()) {
		return false
	}
	if w.Pod != nil {
		return s.labelSelector.Matches(labels.Set(w.Pod.Labels)) && s.fieldSelector.Matches(podFields(w.Pod))
	}
	claim := c.Claim(w.Claim)
	return s.fieldSelector.Empty() && claim != nil && s.labelSelector.Matches(labels.Set(claim.Labels))
}

// opaque returns errNotPlaced if the selection includes an object whose pods are unknown.
func (s *selection) opaque(c *cluster.Cluster) error {
	if slices.ContainsFunc(c.Opaque(), s.coversNamespace) {
		return errNotPlaced
	}
	return nil
}

// coversNamespace reports whether the namespace of an object is selected. From files, all
// namespaces are unless -n is set. From a cluster, the current one is unless -A is set.
func (s *selection) coversNamespace(key types.NamespacedName) bool {
	if s.allNamespaces || !s.origin.live() && !s.origin.namespaceGiven() {
		return true
	}
	return key.Namespace == s.origin.namespace()
}
