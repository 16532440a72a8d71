// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !dray_kubernetes_1_36

package kubeletplugin

import (
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// What is in this file, in health.go and in metadata.go is in the libraries of Kubernetes 1.37
// and later. The file kubernetes_1_36.go takes its place with those of 1.36.

// RollingUpdateRegistrarSocketFile is the name of the registration socket in registryDir of
// the instance that runs in the pod with this UID.
func RollingUpdateRegistrarSocketFile(registryDir, driverName string, podUID types.UID) string {
	return upstream.RollingUpdateRegistrarSocketFile(registryDir, driverName, podUID)
}
