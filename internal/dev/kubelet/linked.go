// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDevices is kubelet's own constructor. The exported one beside it takes the folder of
// the node, which tests must not touch.
//
//go:linkname newDevices k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDevices(
	logger klog.Logger, socket string, topology []cadvisorapi.Node, affinity topologymanager.Store,
) (*devicemanager.ManagerImpl, error)
