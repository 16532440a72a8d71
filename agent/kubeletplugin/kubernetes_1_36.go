// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build dray_kubernetes_1_36

package kubeletplugin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// What is in this file takes the place of health.go and metadata.go for drivers with the
// libraries of Kubernetes 1.36. A driver that serves the health service v1alpha1 is found by
// upstream.

func withHealth(plugin DRAPlugin) (upstream.DRAPlugin, []upstream.Option) { return plugin, nil }

// EnableDeviceMetadata has files with metadata of devices mounted into containers.
func EnableDeviceMetadata(enabled bool) Option {
	return func(o *options) error {
		o.metadata = append(o.metadata, upstream.EnableDeviceMetadata(enabled))
		return nil
	}
}

// MetadataVersions are the versions of the format for EnableDeviceMetadata.
func MetadataVersions(versions ...schema.GroupVersion) Option {
	return func(o *options) error {
		o.metadata = append(o.metadata, upstream.MetadataVersions(versions...))
		return nil
	}
}

// metadataOptions are what upstream is told.
type metadataOptions []upstream.Option

func (m *metadataOptions) option() []upstream.Option { return *m }
