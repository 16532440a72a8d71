// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodefit_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/nodefit"
)

// What keeps a pod away from a node, but for its devices.
func ExampleFits() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}}}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}}}
	node.Labels = map[string]string{"gpu": "yes"}

	fits, err := nodefit.Fits(pod, node)
	fmt.Println(fits, err, nodefit.Untolerated(pod, node).Key)
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "maintenance", Operator: corev1.TolerationOpExists}}
	fits, err = nodefit.Fits(pod, node)
	fmt.Println(fits, err)
	// Output:
	// false <nil> maintenance
	// true <nil>
}
