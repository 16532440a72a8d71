// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// dump prints the arena's pods, claims and events if the spec has failed, and keeps logs.
func (a *arena) dump(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	plane.KeepFolder()
	AddReportEntry("logs of the control plane", plane.Folder())
	pods, err := client.CoreV1().Pods(a.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	claims, err := client.ResourceV1().ResourceClaims(a.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	events, err := client.CoreV1().Events(a.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, list := range []runtime.Object{pods, claims, events} {
		Expect(meta.EachListItem(list, report)).To(Succeed())
	}
}

// report adds an object to the spec's report, without what nobody reads.
func report(object runtime.Object) error {
	named, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	named.SetManagedFields(nil)
	text, err := yaml.Marshal(object)
	if err == nil {
		AddReportEntry(fmt.Sprintf("%T %s", object, named.GetName()), string(text))
	}
	return err
}
