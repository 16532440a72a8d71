// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil

import (
	"context"
	"io"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/api"
)

// Provider runs pods, and serves requests of the API server about them. Package errdefs classifies
// its errors. Package api describes the functions that serve requests.
type Provider interface {
	node.PodLifecycleHandler

	// GetContainerLogs is an api.ContainerLogsHandlerFunc.
	GetContainerLogs(ctx context.Context, namespace, podName, containerName string, opts api.ContainerLogOpts) (io.ReadCloser, error)

	// RunInContainer is an api.ContainerExecHandlerFunc.
	RunInContainer(ctx context.Context, namespace, podName, containerName string, cmd []string, attach api.AttachIO) error

	// AttachToContainer is an api.ContainerAttachHandlerFunc.
	AttachToContainer(ctx context.Context, namespace, podName, containerName string, attach api.AttachIO) error

	// GetStatsSummary is an api.PodStatsSummaryHandlerFunc.
	GetStatsSummary(ctx context.Context) (*statsv1alpha1.Summary, error)

	// GetMetricsResource is an api.PodMetricsResourceHandlerFunc.
	GetMetricsResource(ctx context.Context) ([]*dto.MetricFamily, error)

	// PortForward is an api.PortForwardHandlerFunc.
	PortForward(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error
}

// ProviderConfig is the argument of a NewProviderFunc. Once Run has begun, the listers have the
// pods of the node, and the other objects of all namespaces.
type ProviderConfig struct {
	Pods       corev1listers.PodLister
	ConfigMaps corev1listers.ConfigMapLister
	Secrets    corev1listers.SecretLister
	Services   corev1listers.ServiceLister
	// Node is the Node to register. The provider may change it: see NewNode.
	Node *corev1.Node
}

// NewProviderFunc makes a provider. The NodeProvider may be nil: see NewNode.
type NewProviderFunc func(ProviderConfig) (Provider, node.NodeProvider, error)

// AttachProviderRoutes adds the provider's routes to mux, for all its paths. To be served, mux must
// be in NodeConfig.Handler.
func AttachProviderRoutes(mux api.ServeMux) NodeOpt {
	return func(cfg *NodeConfig) error {
		cfg.routeAttacher = func(p Provider, cfg NodeConfig, pods corev1listers.PodLister) {
			mux.Handle("/", api.PodHandler(api.PodHandlerConfig{
				RunInContainer:        p.RunInContainer,
				AttachToContainer:     p.AttachToContainer,
				PortForward:           p.PortForward,
				GetContainerLogs:      p.GetContainerLogs,
				GetPods:               p.GetPods,
				GetPodsFromKubernetes: func(context.Context) ([]*corev1.Pod, error) { return pods.List(labels.Everything()) },
				GetStatsSummary:       p.GetStatsSummary,
				GetMetricsResource:    p.GetMetricsResource,
				StreamIdleTimeout:     cfg.StreamIdleTimeout,
				StreamCreationTimeout: cfg.StreamCreationTimeout,
			}, true))
		}
		return nil
	}
}
