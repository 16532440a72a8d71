// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !dray_kubernetes_1_36

package kubeletplugin

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatav1alpha1 "k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// latestMetadata is the version that upstream requires to be written.
var latestMetadata = metadatav1beta1.SchemeGroupVersion

// MetadataFileOperations is the argument of MetadataFileOps. A nil field stands for the default
// function.
type MetadataFileOperations = upstream.MetadataFileOperations

// MetadataFileOps replaces how files for metadata are written and read.
func MetadataFileOps(ops MetadataFileOperations) Option {
	return forwarded(upstream.MetadataFileOps(ops))
}

// EnableDeviceMetadata makes files with metadata of devices, and mounts them into containers. At
// most one list of versions may be given, and it must include the latest version. Without a list,
// MetadataVersions sets the versions, as in Kubernetes 1.36.
func EnableDeviceMetadata(enabled bool, versions ...[]schema.GroupVersion) Option {
	return func(o *options) error {
		o.metadata.enabled, o.metadata.older = enabled, len(versions) == 0
		if !o.metadata.older {
			o.metadata.versions = slices.Concat(versions...)
		}
		return nil
	}
}

// MetadataVersions sets the versions of the format if EnableDeviceMetadata has none. The default is
// v1alpha1. Files also have the latest version, before these.
func MetadataVersions(versions ...schema.GroupVersion) Option {
	return func(o *options) error {
		o.metadata.versions = versions
		return nil
	}
}

// metadataOptions says which versions of the format are written.
type metadataOptions struct {
	enabled  bool
	versions []schema.GroupVersion
	older    bool // enabled without versions, as in Kubernetes 1.36
}

// written returns the versions for upstream's option.
func (m *metadataOptions) written() []schema.GroupVersion {
	if !m.enabled || !m.older {
		return m.versions
	}
	versions := m.versions
	if len(versions) == 0 {
		versions = []schema.GroupVersion{metadatav1alpha1.SchemeGroupVersion}
	}
	others := slices.DeleteFunc(slices.Clone(versions), func(v schema.GroupVersion) bool { return v == latestMetadata })
	return append([]schema.GroupVersion{latestMetadata}, others...)
}

// option returns the option for upstream.
func (m *metadataOptions) option() []upstream.Option {
	return []upstream.Option{upstream.EnableDeviceMetadata(m.enabled, m.written())}
}
