// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !dray_kubernetes_1_36

package kubeletplugin

import (
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// This file, health.go and metadata.go need the libraries of Kubernetes 1.37 or later. With those
// of 1.36, kubernetes_1_36.go replaces them.

// RollingUpdateRegistrarSocketFile returns the name of the registration socket in registryDir, for
// the driver's instance in the pod with this UID.
func RollingUpdateRegistrarSocketFile(registryDir, driverName string, podUID types.UID) string {
	return upstream.RollingUpdateRegistrarSocketFile(registryDir, driverName, podUID)
}
