// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/agent/internal/yamlfile"
)

// Hardware is a file that describes simulated hardware: the devices of one node, in the fields of
// SimulatedDevices, or kinds of nodes.
type Hardware struct {
	SimulatedDevices `json:",inline"`
	Nodes            []SimulatedNodes `json:"nodes,omitempty"`
}

// SimulatedNodes describes a number of similar nodes.
type SimulatedNodes struct {
	// Name is the pattern of the nodes' names. {index} in it stands for the index of the node, from
	// 0. {index:3} stands for the index with at least three digits.
	Name string `json:"name"`
	// Count is the number of nodes. 0 stands for one.
	Count int `json:"count,omitempty"`

	// Labels are labels in addition to those for host name, operating system and architecture.
	Labels map[string]string `json:"labels,omitempty"`
	// Region is the region of all nodes. Nodes are assigned to the zones in turn.
	Region string         `json:"region,omitempty"`
	Zones  []string       `json:"zones,omitempty"`
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Capacity is the nodes' capacity for pods. The defaults are 64 CPUs, 512Gi of memory, 1Ti of
	// ephemeral storage and 110 pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// The devices of each node; there may be none.
	SimulatedDevices `json:",inline"`
}

const (
	// MaxSimulatedNodes is the maximum number of nodes in a file.
	MaxSimulatedNodes = 100_000
	// maxSimulatedDevices is the maximum number of devices of a node, including partitions.
	maxSimulatedDevices = 10_000
)

// ReadHardware reads a description of simulated hardware in YAML. Errors name file, line and field.
func ReadHardware(path string) (*Hardware, error) {
	hardware := &Hardware{}
	file, err := yamlfile.Read(path, hardware)
	if err != nil {
		return nil, err
	}
	return hardware, hardware.check(file)
}

// Validate checks a description that does not come from a file, as ReadHardware does. Errors name
// fields.
func (h *Hardware) Validate() error { return h.check(&yamlfile.File{}) }

func (h *Hardware) check(file *yamlfile.File) error {
	c := &hardwareCheck{file: file}
	c.hardware(h)
	return errors.Join(c.mistakes...)
}

// defaultCapacity has the defaults of Capacity.
var defaultCapacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("64"),
	corev1.ResourceMemory:           resource.MustParse("512Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	corev1.ResourcePods:             resource.MustParse("110"),
}

// Room returns a node's capacity for pods, including defaults.
func (n *SimulatedNodes) Room() corev1.ResourceList {
	room := maps.Clone(defaultCapacity)
	maps.Copy(room, n.Capacity)
	return room
}

// Number returns the number of nodes.
func (n *SimulatedNodes) Number() int { return max(n.Count, 1) }

// NodeName returns the name of the node with an index.
func (n *SimulatedNodes) NodeName(index int) string {
	return placeholder.ReplaceAllStringFunc(n.Name, func(found string) string {
		digits, _ := strconv.Atoi(placeholder.FindStringSubmatch(found)[1])
		return fmt.Sprintf("%0*d", digits, index)
	})
}

// placeholder matches the placeholder for the index in a node's name.
var placeholder = regexp.MustCompile(`\{index(?::([1-9]))?\}`)

// Zone returns the zone of the node with an index, or an empty string.
func (n *SimulatedNodes) Zone(index int) string {
	if len(n.Zones) == 0 {
		return ""
	}
	return n.Zones[index%len(n.Zones)]
}

// Drivers returns the drivers of the nodes' devices, in the order of the groups.
func (n *SimulatedNodes) Drivers() []string {
	var names []string
	for i := range n.Groups {
		if name := n.Groups[i].Driver; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Inventory returns the devices of the node with an index. last has the latest event of each
// device, by device name.
func (n *SimulatedNodes) Inventory(index int, last map[string]SimulatedEvent) *Inventory {
	return n.inventory(nodeIdentity{n.NodeName(index), index}, last)
}

// devicesOf returns the devices of the node with a name, and its index.
func (h *Hardware) devicesOf(name string) (*SimulatedDevices, int, error) {
	if len(h.Nodes) == 0 {
		return &h.SimulatedDevices, 0, nil
	}
	for i := range h.Nodes {
		kind := &h.Nodes[i]
		for index := range kind.Number() {
			if kind.NodeName(index) == name {
				return &kind.SimulatedDevices, index, nil
			}
		}
	}
	var names []string
	for i := range h.Nodes {
		names = append(names, h.Nodes[i].Name)
	}
	return nil, 0, fmt.Errorf("nodes: none has the name %q: their names are %s", name, strings.Join(names, ", "))
}
