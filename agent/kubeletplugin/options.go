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

// options has options for upstream's helper, and those that publishing needs.
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

// known returns an option that is forwarded to upstream, and that publishing needs, too.
func known(option upstream.Option, note func(o *options)) Option {
	return func(o *options) error {
		note(o)
		o.kubelet = append(o.kubelet, option)
		return nil
	}
}

// DriverName sets the name of the driver: a DNS subdomain of at most 63 characters. It is required.
func DriverName(name string) Option {
	return known(upstream.DriverName(name), func(o *options) { o.driverName = name })
}

// KubeClient sets the client, which is required. It reads claims and writes ResourceSlices: see
// resourceslice.Options.
func KubeClient(client kubernetes.Interface) Option {
	return known(upstream.KubeClient(client), func(o *options) { o.kubeClient = client })
}

// NodeName sets the name of the node. It is required for PublishResources.
func NodeName(name string) Option {
	return known(upstream.NodeName(name), func(o *options) { o.nodeName = name })
}

// NodeUID sets the UID of the node, which saves a request.
func NodeUID(uid types.UID) Option {
	return known(upstream.NodeUID(uid), func(o *options) { o.nodeUID = uid })
}

// ReconcilePoolWithName makes PublishResources manage the pool with this name only: see
// resourceslice.Options. The default, "", is all pools with the node's name.
func ReconcilePoolWithName(name string) Option {
	return known(upstream.ReconcilePoolWithName(name), func(o *options) { o.reconcilePoolWithName = name })
}

// GRPCVerbosity sets the log level for gRPC calls. The default is 6. A negative value disables
// logging.
func GRPCVerbosity(level int) Option { return forwarded(upstream.GRPCVerbosity(level)) }

// RegistrarDirectoryPath sets kubelet's plugin registration directory. The default is
// KubeletRegistryDir.
func RegistrarDirectoryPath(path string) Option {
	return forwarded(upstream.RegistrarDirectoryPath(path))
}

// RegistrarSocketFilename sets the name of the registration socket. The default is
// <driver>-reg.sock. It cannot be combined with RollingUpdate.
func RegistrarSocketFilename(name string) Option {
	return forwarded(upstream.RegistrarSocketFilename(name))
}

// RegistrarListener sets the function that makes the registration socket.
func RegistrarListener(listen func(ctx context.Context, path string) (net.Listener, error)) Option {
	return forwarded(upstream.RegistrarListener(listen))
}

// PluginDataDirectoryPath sets the driver's directory, with the socket of the DRA service. The
// default is a directory with the driver's name in KubeletPluginsDir.
func PluginDataDirectoryPath(path string) Option {
	return forwarded(upstream.PluginDataDirectoryPath(path))
}

// PluginSocket sets the name of the DRA service's socket.
func PluginSocket(name string) Option { return forwarded(upstream.PluginSocket(name)) }

// PluginListener sets the function that makes the DRA service's socket.
func PluginListener(listen func(ctx context.Context, path string) (net.Listener, error)) Option {
	return forwarded(upstream.PluginListener(listen))
}

// RollingUpdate permits two instances of the driver on a node while one replaces the other. podUID
// is the UID of the instance's pod; an empty one disables this. Kubelet supports it since
// Kubernetes 1.33. Instances must not keep state between calls. They must stop gracefully, because
// nobody removes the sockets of a killed one.
func RollingUpdate(podUID types.UID) Option { return forwarded(upstream.RollingUpdate(podUID)) }

// FlockDirectoryPath sets the directory of the lock that instances hold during calls. The default
// is the driver's directory.
func FlockDirectoryPath(path string) Option { return forwarded(upstream.FlockDirectoryPath(path)) }

// Serialize makes calls of prepare and unprepare run one at a time. It is enabled by default.
func Serialize(enabled bool) Option { return forwarded(upstream.Serialize(enabled)) }

// GRPCInterceptor adds an interceptor for unary calls.
func GRPCInterceptor(interceptor grpc.UnaryServerInterceptor) Option {
	return forwarded(upstream.GRPCInterceptor(interceptor))
}

// GRPCStreamInterceptor adds an interceptor for streams.
func GRPCStreamInterceptor(interceptor grpc.StreamServerInterceptor) Option {
	return forwarded(upstream.GRPCStreamInterceptor(interceptor))
}

// NodeV1beta1 enables version v1beta1 of the DRA service. It is enabled by default.
func NodeV1beta1(enabled bool) Option { return forwarded(upstream.NodeV1beta1(enabled)) }

// NodeV1 enables version v1 of the DRA service. It is enabled by default.
func NodeV1(enabled bool) Option { return forwarded(upstream.NodeV1(enabled)) }

// RegistrationService enables registration with kubelet. It is enabled by default.
func RegistrationService(enabled bool) Option {
	return forwarded(upstream.RegistrationService(enabled))
}

// DRAService enables the DRA service. It is enabled by default.
func DRAService(enabled bool) Option { return forwarded(upstream.DRAService(enabled)) }

// CDIDirectory sets the directory of CDI files for metadata of devices. The default is
// DefaultCDIDir.
func CDIDirectory(path string) Option { return forwarded(upstream.CDIDirectory(path)) }
