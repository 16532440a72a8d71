// Package schedplugin is the kube-scheduler plugin of Dray: it takes the place of the
// in-tree DynamicResources plugin.
package schedplugin

import (
	_ "k8s.io/dynamic-resource-allocation/structured"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "github.com/dray-project/dray/allocator"
)
