// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build dray_kubernetes_1_36

package kubeletplugin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// This file replaces health.go and metadata.go for drivers with the libraries of Kubernetes 1.36.
// There, upstream itself detects drivers with the health service v1alpha1.

func withHealth(plugin DRAPlugin) (upstream.DRAPlugin, []upstream.Option) { return plugin, nil }

// EnableDeviceMetadata makes files with metadata of devices, and mounts them into containers.
func EnableDeviceMetadata(enabled bool) Option {
	return func(o *options) error {
		o.metadata = append(o.metadata, upstream.EnableDeviceMetadata(enabled))
		return nil
	}
}

// MetadataVersions are the versions of the metadata format.
func MetadataVersions(versions ...schema.GroupVersion) Option {
	return func(o *options) error {
		o.metadata = append(o.metadata, upstream.MetadataVersions(versions...))
		return nil
	}
}

// metadataOptions are options for upstream.
type metadataOptions []upstream.Option

func (m *metadataOptions) option() []upstream.Option { return *m }
