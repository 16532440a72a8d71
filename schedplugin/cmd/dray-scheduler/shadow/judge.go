// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/dray-project/dray/schedplugin"
)

// judge runs the plugin of a profile on a cluster in which the allocations of one pod are hidden. Only one
// goroutine may use it at a time.
type judge struct {
	plugin  *schedplugin.Plugin
	cluster *cluster
}

// hiding is the handle of a profile with another SharedDRAManager.
type hiding struct {
	fwk.Handle
	cluster *cluster
}

func (h hiding) SharedDRAManager() fwk.SharedDRAManager { return h.cluster }

// ProfileName returns a name that no profile has, as the plugin's informer indexes contain the name.
func (h hiding) ProfileName() string { return "shadow of " + h.Handle.ProfileName() }

func newJudge(ctx context.Context, args runtime.Object, handle fwk.Handle, c *cluster) (*judge, error) {
	made, err := schedplugin.New(ctx, args, hiding{handle, c})
	if err != nil {
		return nil, err
	}
	plugin, ok := made.(*schedplugin.Plugin)
	if !ok {
		return nil, fmt.Errorf("the plugin is a %T", made)
	}
	return &judge{plugin: plugin, cluster: c}, nil
}

// device is a device that a request of a claim was given.
type device struct{ request, driver, pool, name string }

func (d device) String() string { return d.driver + "/" + d.pool + "/" + d.name }

// place returns the device without the request.
func (d device) place() device { return device{driver: d.driver, pool: d.pool, name: d.name} }

// devicesOf returns the allocated devices of claims. Several shares of a device for one request count once.
func devicesOf(claims ...*resourceapi.ResourceClaim) sets.Set[device] {
	devices := sets.New[device]()
	for _, claim := range claims {
		if claim == nil || claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			devices.Insert(device{result.Request, result.Driver, result.Pool, result.Device})
		}
	}
	return devices
}

// decide returns the devices that a pod would get on a node if its claims were not allocated. If it would get
// none, the status says why.
func (j *judge) decide(ctx context.Context, pod *corev1.Pod, node *corev1.Node, claims []*resourceapi.ResourceClaim) (sets.Set[device], *fwk.Status) {
	j.cluster.hide(claims...)
	defer j.cluster.hide()
	nodeInfo := framework.NewNodeInfo()
	nodeInfo.SetNode(node)
	state := framework.NewCycleState()
	if _, status := j.plugin.PreFilter(ctx, state, pod, []fwk.NodeInfo{nodeInfo}); !status.IsSuccess() {
		return nil, status
	}
	if status := j.plugin.Filter(ctx, state, pod, nodeInfo); !status.IsSuccess() {
		return nil, status
	}
	// Unreserve is not called, as it would remove reservations in the API server.
	defer clear(j.cluster.pending)
	if status := j.plugin.Reserve(ctx, state, pod, node.Name); !status.IsSuccess() {
		return nil, status
	}
	devices := sets.New[device]()
	for _, claim := range j.cluster.pending {
		devices = devices.Union(devicesOf(claim))
	}
	return devices, nil
}
