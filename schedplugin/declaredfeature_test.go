// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	kubefeatures "k8s.io/kubernetes/pkg/features"
)

// A pod that was rejected, as its devices need a feature which no node declares, is tried again
// when one does.
func TestDeclaredFeatureRequeuesPods(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.DRAOptionalNodeOperations, true)
	slice := gpus("a", 1)
	slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodePrepareResources}
	r, err := newScheduler(t, dray, roomy("a"), gpuClass(), slice, gpuClaim("wanted", 1))
	r.must(err)
	r.run()
	r.create(p())
	r.waitForRejection("p")
	r.updateNode(func(n *corev1.Node) {
		n.Status.DeclaredFeatures = []string{draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate}
	})
	r.waitFor(soon, "p")
}
