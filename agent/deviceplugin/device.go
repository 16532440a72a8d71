// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"encoding/json"
	"maps"
	"reflect"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/numa"
)

// DeviceTree is what a Scanner found: device type, device ID, device. A type becomes the resource
// <namespace>/<type>. A type without devices becomes a resource with capacity 0.
type DeviceTree map[string]map[string]DeviceInfo

// NewDeviceTree returns a tree without devices.
func NewDeviceTree() DeviceTree { return make(DeviceTree) }

// AddDevice adds a device, or replaces the one of the same type and ID.
func (tree DeviceTree) AddDevice(devType, id string, info DeviceInfo) {
	if tree[devType] == nil {
		tree[devType] = make(map[string]DeviceInfo)
	}
	tree[devType][id] = info
}

// DeviceTypeCount returns the number of devices of a type.
func (tree DeviceTree) DeviceTypeCount(devType string) int { return len(tree[devType]) }

// clone copies both levels of maps. A DeviceInfo is immutable.
func (tree DeviceTree) clone() DeviceTree {
	clone := make(DeviceTree, len(tree))
	for devType, devices := range tree {
		clone[devType] = maps.Clone(devices)
	}
	return clone
}

// DeviceInfo describes a device to kubelet. It is immutable.
type DeviceInfo struct {
	state       string
	nodes       []deviceNode
	mounts      []mount
	envs        map[string]string
	annotations map[string]string
	numaNodes   []int64       // nil if there is no hint
	cdiSpec     *cdispec.Spec // nil, or with at least one device
}

// deviceNode and mount have the fields of the protobuf messages DeviceSpec and Mount, and can be
// compared.
type deviceNode struct{ containerPath, hostPath, permissions string }

type mount struct {
	containerPath, hostPath string
	readOnly                bool
}

// sysfs is the mount point of sysfs.
const sysfs = "/sys"

// NewDeviceInfo returns a DeviceInfo whose NUMA nodes are read from sysfs, for its device nodes.
// For a VFIO group, they are those of its devices. If sysfs has no NUMA node, there is no topology
// hint. Errors of sysfs are logged.
//
// The state is Healthy or Unhealthy of the v1beta1 API. nodes, mounts, envs and annotations are
// added to each container that gets the device, and so are the CDI devices which cdiSpec defines;
// any of them may be nil. If the spec has no version, it gets the lowest one that supports what it
// uses. A spec that defines no device is dropped, with a warning in the log.
func NewDeviceInfo(state string, nodes []pluginapi.DeviceSpec, mounts []pluginapi.Mount, envs, annotations map[string]string, cdiSpec *cdispec.Spec) DeviceInfo {
	return deviceBySysfs(sysfs, state, nodes, mounts, envs, annotations, cdiSpec)
}

// NewDeviceInfoWithTopologyHints is NewDeviceInfo with NUMA nodes given by the caller. There is no
// hint if topology is nil.
func NewDeviceInfoWithTopologyHints(state string, nodes []pluginapi.DeviceSpec, mounts []pluginapi.Mount, envs map[string]string,
	annotations map[string]string, topology *pluginapi.TopologyInfo, cdiSpec *cdispec.Spec) DeviceInfo {
	info := DeviceInfo{
		state:       state,
		envs:        maps.Clone(envs),
		annotations: maps.Clone(annotations),
		cdiSpec:     cloneSpec(cdiSpec),
	}
	for i := range nodes {
		node := &nodes[i]
		info.nodes = append(info.nodes, deviceNode{node.ContainerPath, node.HostPath, node.Permissions})
	}
	for i := range mounts {
		m := &mounts[i]
		info.mounts = append(info.mounts, mount{m.ContainerPath, m.HostPath, m.ReadOnly})
	}
	for _, node := range topology.GetNodes() {
		info.numaNodes = append(info.numaNodes, node.GetID())
	}
	return info
}

func deviceBySysfs(sys, state string, nodes []pluginapi.DeviceSpec, mounts []pluginapi.Mount, envs, annotations map[string]string, cdiSpec *cdispec.Spec) DeviceInfo {
	info := NewDeviceInfoWithTopologyHints(state, nodes, mounts, envs, annotations, nil, cdiSpec)
	var files []string
	for _, node := range info.nodes {
		files = append(files, node.hostPath)
	}
	numaNodes, err := numa.OfDeviceFiles(sys, files)
	if err != nil {
		klog.Background().Info("Warning: the topology of a device is not known", "files", files, "err", err)
	}
	for _, node := range numaNodes {
		info.numaNodes = append(info.numaNodes, int64(node))
	}
	return info
}

// cloneSpec returns a deep copy, because callers may reuse one spec for many devices. It returns
// nil for a spec without devices.
func cloneSpec(spec *cdispec.Spec) *cdispec.Spec {
	if spec == nil {
		return nil
	}
	if len(spec.Devices) == 0 {
		klog.Background().Info("Warning: a CDI spec without devices was dropped", "kind", spec.Kind)
		return nil
	}
	clone := &cdispec.Spec{}
	content, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(content, clone)
	}
	if err != nil { // any spec can be encoded as JSON
		klog.Background().Error(err, "A CDI spec cannot be copied", "kind", spec.Kind)
		return spec
	}
	return clone
}

func (d DeviceInfo) equal(other DeviceInfo) bool { return reflect.DeepEqual(d, other) }

// message returns the device as ListAndWatch sends it.
func (d DeviceInfo) message(id string) *pluginapi.Device {
	message := &pluginapi.Device{ID: id, Health: d.state}
	for _, node := range d.numaNodes {
		if message.Topology == nil {
			message.Topology = &pluginapi.TopologyInfo{}
		}
		message.Topology.Nodes = append(message.Topology.Nodes, &pluginapi.NUMANode{ID: node})
	}
	return message
}
