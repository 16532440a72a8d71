// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletplugin

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// Option configures Start.
type Option func(*options) error

// options are what upstream's helper is given, and what publishing needs to know of it.
type options struct {
	kubelet []upstream.Option

	driverName            string
	kubeClient            kubernetes.Interface
	nodeName              string
	nodeUID               types.UID
	reconcilePoolWithName string

	metadata metadataOptions
}

func forwarded(option upstream.Option) Option {
	return func(o *options) error {
		o.kubelet = append(o.kubelet, option)
		return nil
	}
}

// known forwards an option that publishing needs, too.
func known(option upstream.Option, note func(o *options)) Option {
	return func(o *options) error {
		note(o)
		o.kubelet = append(o.kubelet, option)
		return nil
	}
}

// DriverName is required: a DNS subdomain of at most 63 characters.
func DriverName(name string) Option {
	return known(upstream.DriverName(name), func(o *options) { o.driverName = name })
}

// KubeClient is required. It reads claims, and publishes: see resourceslice.Options.
func KubeClient(client kubernetes.Interface) Option {
	return known(upstream.KubeClient(client), func(o *options) { o.kubeClient = client })
}

// NodeName is required for PublishResources.
func NodeName(name string) Option {
	return known(upstream.NodeName(name), func(o *options) { o.nodeName = name })
}

// NodeUID saves looking up the node.
func NodeUID(uid types.UID) Option {
	return known(upstream.NodeUID(uid), func(o *options) { o.nodeUID = uid })
}

// ReconcilePoolWithName makes PublishResources responsible for the one pool with this name:
// see resourceslice.Options. The default, "", is all pools with the node's name.
func ReconcilePoolWithName(name string) Option {
	return known(upstream.ReconcilePoolWithName(name), func(o *options) { o.reconcilePoolWithName = name })
}

// GRPCVerbosity is the level at which calls are logged, 6 by default. Negative: never.
func GRPCVerbosity(level int) Option { return forwarded(upstream.GRPCVerbosity(level)) }

// RegistrarDirectoryPath is where kubelet looks for plugins. The default is
// KubeletRegistryDir.
func RegistrarDirectoryPath(path string) Option {
	return forwarded(upstream.RegistrarDirectoryPath(path))
}

// RegistrarSocketFilename replaces the name of the registration socket, which is
// <driver>-reg.sock. It excludes RollingUpdate.
func RegistrarSocketFilename(name string) Option {
	return forwarded(upstream.RegistrarSocketFilename(name))
}

// RegistrarListener replaces how the registration socket is made.
func RegistrarListener(listen func(ctx context.Context, path string) (net.Listener, error)) Option {
	return forwarded(upstream.RegistrarListener(listen))
}

// PluginDataDirectoryPath is the driver's own directory, with the socket of the DRA service.
// The default is a directory with the driver's name in KubeletPluginsDir.
func PluginDataDirectoryPath(path string) Option {
	return forwarded(upstream.PluginDataDirectoryPath(path))
}

// PluginSocket replaces the name of the socket of the DRA service.
func PluginSocket(name string) Option { return forwarded(upstream.PluginSocket(name)) }

// PluginListener replaces how the socket of the DRA service is made.
func PluginListener(listen func(ctx context.Context, path string) (net.Listener, error)) Option {
	return forwarded(upstream.PluginListener(listen))
}

// RollingUpdate lets two instances of the driver serve a node while one replaces the other.
// The UID is that of the instance's pod; empty switches it off. Kubelet supports it since
// Kubernetes 1.33. Each instance has to be stateless from one call to the next, and to stop
// in good order, because nobody removes the sockets of one that did not.
func RollingUpdate(podUID types.UID) Option { return forwarded(upstream.RollingUpdate(podUID)) }

// FlockDirectoryPath is where instances lock each other out during calls. The default is the
// driver's own directory.
func FlockDirectoryPath(path string) Option { return forwarded(upstream.FlockDirectoryPath(path)) }

// Serialize tells whether calls to prepare and unprepare are made one at a time, which is the
// default.
func Serialize(enabled bool) Option { return forwarded(upstream.Serialize(enabled)) }

// GRPCInterceptor adds an interceptor of calls.
func GRPCInterceptor(interceptor grpc.UnaryServerInterceptor) Option {
	return forwarded(upstream.GRPCInterceptor(interceptor))
}

// GRPCStreamInterceptor adds an interceptor of streams.
func GRPCStreamInterceptor(interceptor grpc.StreamServerInterceptor) Option {
	return forwarded(upstream.GRPCStreamInterceptor(interceptor))
}

// NodeV1beta1 tells whether version v1beta1 of the DRA service is served: by default.
func NodeV1beta1(enabled bool) Option { return forwarded(upstream.NodeV1beta1(enabled)) }

// NodeV1 tells whether version v1 of the DRA service is served: by default.
func NodeV1(enabled bool) Option { return forwarded(upstream.NodeV1(enabled)) }

// RegistrationService tells whether the driver registers with kubelet: by default.
func RegistrationService(enabled bool) Option {
	return forwarded(upstream.RegistrationService(enabled))
}

// DRAService tells whether the DRA service is served: by default.
func DRAService(enabled bool) Option { return forwarded(upstream.DRAService(enabled)) }

// CDIDirectory is where CDI files for metadata of devices are written. The default is
// DefaultCDIDir.
func CDIDirectory(path string) Option { return forwarded(upstream.CDIDirectory(path)) }
