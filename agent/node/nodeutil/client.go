// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dray-project/dray/agent/node"
)

// ClientsetFromEnv returns a client for a kubeconfig file. If the path is empty or the file does
// not exist, it uses the in-cluster configuration.
func ClientsetFromEnv(kubeConfigPath string) (*kubernetes.Clientset, error) {
	config, err := configFromEnv(kubeConfigPath)
	if err != nil {
		return nil, fmt.Errorf("configuration of the client: %w", err)
	}
	return kubernetes.NewForConfig(config)
}

func configFromEnv(path string) (*rest.Config, error) {
	if path == "" {
		return rest.InClusterConfig()
	}
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return rest.InClusterConfig()
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// PodInformerFilter limits an informer to the pods that are bound to a node.
func PodInformerFilter(node string) informers.SharedInformerOption {
	return informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	})
}

// NodeLeaseV1Client returns the client for the option node.WithNodeEnableLeaseV1.
func NodeLeaseV1Client(client kubernetes.Interface) typedcoordinationv1.LeaseInterface {
	return client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
}

// FilterPodsForNodeName returns a filter that accepts pods bound to a node.
func FilterPodsForNodeName(name string) node.PodEventFilterFunc {
	return func(_ context.Context, p *corev1.Pod) bool { return p.Spec.NodeName == name }
}

// PodFilters returns a filter that accepts a pod if one of the filters does. It calls them in
// order, up to the first that accepts.
func PodFilters(filters ...node.PodEventFilterFunc) node.PodEventFilterFunc {
	return func(ctx context.Context, p *corev1.Pod) bool {
		for _, filter := range filters {
			if filter(ctx, p) {
				return true
			}
		}
		return false
	}
}
