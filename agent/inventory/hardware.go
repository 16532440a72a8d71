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

// SimulatedNodes describes nodes that are alike.
type SimulatedNodes struct {
	// Name is that of the nodes. {index} in it stands for the number of the node, from 0 on, and
	// {index:3} for the same with zeros before it, so that it has three digits.
	Name string `json:"name"`
	// Count is how many there are; 0 stands for one.
	Count int `json:"count,omitempty"`

	// Labels are those of the nodes, besides their name, operating system and architecture.
	Labels map[string]string `json:"labels,omitempty"`
	// Region is that of all nodes. Zones are theirs in turn: the first node is in the first one.
	Region string         `json:"region,omitempty"`
	Zones  []string       `json:"zones,omitempty"`
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Capacity is that of the nodes for pods. What it does not have is
	// 64 CPUs, 512Gi of memory, 1Ti of ephemeral storage and 110 pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// The devices of each node; nodes need not have any.
	SimulatedDevices `json:",inline"`
}

const (
	// MaxSimulatedNodes is how many nodes a file may describe.
	MaxSimulatedNodes = 100_000
	// maxSimulatedDevices is how many devices one node may have, with their partitions.
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

// Validate looks for mistakes in a description that is not from a file, as ReadHardware does. Errors
// name fields.
func (h *Hardware) Validate() error { return h.check(&yamlfile.File{}) }

func (h *Hardware) check(file *yamlfile.File) error {
	c := &hardwareCheck{file: file}
	c.hardware(h)
	return errors.Join(c.mistakes...)
}

// defaultCapacity is what nodes have for pods if their description does not say.
var defaultCapacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("64"),
	corev1.ResourceMemory:           resource.MustParse("512Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	corev1.ResourcePods:             resource.MustParse("110"),
}

// Room is what a node has for pods.
func (n *SimulatedNodes) Room() corev1.ResourceList {
	room := maps.Clone(defaultCapacity)
	maps.Copy(room, n.Capacity)
	return room
}

// Number is how many nodes there are.
func (n *SimulatedNodes) Number() int { return max(n.Count, 1) }

// NodeName is the name of a node, by its number from 0 on.
func (n *SimulatedNodes) NodeName(index int) string {
	return placeholder.ReplaceAllStringFunc(n.Name, func(found string) string {
		digits, _ := strconv.Atoi(placeholder.FindStringSubmatch(found)[1])
		return fmt.Sprintf("%0*d", digits, index)
	})
}

// placeholder is what stands for the number of a node in its name.
var placeholder = regexp.MustCompile(`\{index(?::([1-9]))?\}`)

// Zone is that of a node, by its number; empty: in none.
func (n *SimulatedNodes) Zone(index int) string {
	if len(n.Zones) == 0 {
		return ""
	}
	return n.Zones[index%len(n.Zones)]
}

// Drivers are the names of the drivers of the nodes' devices, in the order of the groups.
func (n *SimulatedNodes) Drivers() []string {
	var names []string
	for i := range n.Groups {
		if name := n.Groups[i].Driver; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Inventory is what a node has, by its number, after the last event of each of its devices, by
// their names.
func (n *SimulatedNodes) Inventory(index int, last map[string]SimulatedEvent) *Inventory {
	return n.inventory(nodeIdentity{n.NodeName(index), index}, last)
}

// devicesOf are the devices of the node of a name, and its number among those of its kind.
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
