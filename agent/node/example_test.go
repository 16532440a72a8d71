// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dray-project/dray/agent/node"
)

// A node that is always well. With a real client, it is one that pods can be bound to.
func ExampleNodeController() {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	controller, err := node.NewNodeController(
		node.NaiveNodeProvider{},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual-1"}},
		client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), 0),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		if err := controller.Run(ctx); err != nil {
			fmt.Println(err)
		}
	}()

	<-controller.Ready()
	nodes, _ := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	fmt.Println("nodes:", len(nodes.Items))
	cancel()
	<-controller.Done()
	fmt.Println("error:", controller.Err())
	// Output:
	// nodes: 1
	// error: <nil>
}
