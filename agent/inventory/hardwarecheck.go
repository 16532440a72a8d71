// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/agent/internal/yamlfile"
)

// hardwareCheck checks a file of simulated hardware. The API server checks more rules. These
// mistakes would be found late, or with an error that does not name the field.
type hardwareCheck struct {
	file     *yamlfile.File
	mistakes []error
}

func (c *hardwareCheck) mistake(path *field.Path, format string, args ...any) {
	c.mistakes = append(c.mistakes, c.file.Errorf(path.String(), format, args...))
}

func (c *hardwareCheck) hardware(h *Hardware) {
	if len(h.Nodes) == 0 {
		if len(h.Groups) == 0 {
			c.mistake(field.NewPath("groups"), "at least one is required, or nodes")
			return
		}
		c.devices(nil, &h.SimulatedDevices, nil)
		return
	}
	if len(h.Groups) > 0 || len(h.Script) > 0 {
		c.mistake(field.NewPath("nodes"), "groups and script belong to each of them if there are nodes")
		return
	}
	total := 0
	for i := range h.Nodes {
		total += h.Nodes[i].Number()
	}
	if total > MaxSimulatedNodes {
		c.mistake(field.NewPath("nodes"), "%d in all: at most %d are possible", total, MaxSimulatedNodes)
		return
	}
	seen := make(map[string]bool, total)
	for i := range h.Nodes {
		c.nodes(field.NewPath("nodes").Index(i), &h.Nodes[i], seen)
	}
}

// nodes checks a kind of nodes. seen has the names of nodes of earlier kinds.
func (c *hardwareCheck) nodes(path *field.Path, kind *SimulatedNodes, seen map[string]bool) {
	switch {
	case kind.Name == "":
		c.mistake(path.Child("name"), "is required")
		return
	case kind.Count < 0:
		c.mistake(path.Child("count"), "%d: must not be negative", kind.Count)
		return
	case kind.Number() > 1 && !placeholder.MatchString(kind.Name):
		c.mistake(path.Child("name"), "%q: {index} must be in it, because there are %d", kind.Name, kind.Count)
		return
	}
	names := make(map[string]bool, kind.Number())
	for index := range kind.Number() {
		name := kind.NodeName(index)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			c.mistake(path.Child("name"), "%q: %s", name, strings.Join(problems, "; "))
			return
		}
		if seen[name] {
			c.mistake(path.Child("name"), "%q: another node has this name", name)
			return
		}
		seen[name], names[name] = true, true
	}
	for _, problem := range metav1validation.ValidateLabels(kind.Labels, path.Child("labels")) {
		c.mistake(path.Child("labels"), "%s", problem.ErrorBody())
	}
	for i, zone := range append([]string{kind.Region}, kind.Zones...) {
		at := path.Child("region")
		if i > 0 {
			at = path.Child("zones").Index(i - 1)
		}
		if problems := validation.IsValidLabelValue(zone); len(problems) > 0 {
			c.mistake(at, "%q: %s", zone, strings.Join(problems, "; "))
		}
	}
	for i := range kind.Taints {
		taint := &kind.Taints[i]
		c.taint(path.Child("taints").Index(i), taint.Key, taint.Value, string(taint.Effect),
			string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute))
	}
	for name, quantity := range kind.Capacity {
		if quantity.Sign() < 0 {
			c.mistake(path.Child("capacity").Child(string(name)), "%s: must not be negative", quantity.String())
		}
	}
	c.devices(path, &kind.SimulatedDevices, names)
}

func (c *hardwareCheck) taint(path *field.Path, key, value, effect string, effects ...string) {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		c.mistake(path.Child("key"), "%q: %s", key, strings.Join(problems, "; "))
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		c.mistake(path.Child("value"), "%q: %s", value, strings.Join(problems, "; "))
	}
	if !slices.Contains(effects, effect) {
		c.mistake(path.Child("effect"), "%q: must be one of %s", effect, strings.Join(effects, ", "))
	}
}

// devices checks the devices of a node and the script. nodes are the names of the nodes that have
// them; nil stands for any.
func (c *hardwareCheck) devices(path *field.Path, devices *SimulatedDevices, nodes map[string]bool) {
	before, number := len(c.mistakes), 0
	for i := range devices.Groups {
		number += c.group(path.Child("groups").Index(i), &devices.Groups[i])
	}
	if number > maxSimulatedDevices {
		c.mistake(path.Child("groups"), "%d devices with their partitions: a node has at most %d", number, maxSimulatedDevices)
	}
	if len(c.mistakes) > before {
		return // the following checks need valid device names
	}
	wholes := make(map[string]bool)
	seen := make(map[ID]bool)
	for _, device := range devices.inventory(nodeIdentity{name: "node"}, nil).Devices {
		wholes[wholeOf(device)] = true
		if seen[device.ID] {
			c.mistake(path.Child("groups"), "device %s of driver %s: is there twice", device.ID.Device, device.Driver)
			return
		}
		seen[device.ID] = true
	}
	for i := range devices.Script {
		at := path.Child("script").Index(i)
		c.event(at, &devices.Script[i], wholes, nodes)
		if i > 0 && devices.Script[i].At.Duration < devices.Script[i-1].At.Duration {
			c.mistake(at, "at %s comes after %s", devices.Script[i].At.Duration, devices.Script[i-1].At.Duration)
		}
	}
}

// group checks a group, and returns its number of devices.
func (c *hardwareCheck) group(path *field.Path, group *SimulatedGroup) int {
	if group.Driver == "" || group.Name == "" || group.Count < 1 {
		c.mistake(path, "driver, name and a count of at least 1 are required")
		return 0
	}
	if group.Count > maxSimulatedDevices {
		c.mistake(path.Child("count"), "%d: a node has at most %d devices", group.Count, maxSimulatedDevices)
		return 0
	}
	if problems := validation.IsDNS1123Subdomain(group.Driver); len(problems) > 0 {
		c.mistake(path.Child("driver"), "%q: %s", group.Driver, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(fmt.Sprintf("%s-%d", group.Name, group.Count-1)); len(problems) > 0 {
		c.mistake(path.Child("name"), "%q: %s", group.Name, strings.Join(problems, "; "))
	}
	if group.Shares < 0 || group.PCIBus < 0 || group.PCIeRoots < 0 || group.NUMANodes < 0 {
		c.mistake(path, "shares, pciBus, pcieRoots and numaNodes must not be negative")
	}
	if last := group.PCIBus + group.Count - 1; group.PCIBus > 0 && last > 255 {
		c.mistake(path.Child("pciBus"), "%d: the last device would have bus %d: there are 255", group.PCIBus, last)
	}
	for i := range group.Taints {
		c.deviceTaint(path.Child("taints").Index(i), &group.Taints[i])
	}
	each := 1
	for i := range group.Partitions {
		partition, at := &group.Partitions[i], path.Child("partitions").Index(i)
		if partition.Name == "" || partition.Count < 1 || len(partition.Counters) == 0 {
			c.mistake(at, "name, counters and a count of at least 1 are required")
			continue
		}
		for counter := range partition.Counters {
			if _, ok := group.Counters[counter]; !ok {
				c.mistake(at, "counter %s: the group has none of this name", counter)
			}
		}
		if problems := validation.IsDNS1123Label(fmt.Sprintf("%s-%d-%s-%d", group.Name, group.Count-1, partition.Name, partition.Count-1)); len(problems) > 0 {
			c.mistake(at.Child("name"), "%q: %s", partition.Name, strings.Join(problems, "; "))
		}
		each += min(partition.Count, maxSimulatedDevices)
	}
	return group.Count * each
}

func (c *hardwareCheck) deviceTaint(path *field.Path, taint *resourceapi.DeviceTaint) {
	c.taint(path, taint.Key, taint.Value, string(taint.Effect),
		string(resourceapi.DeviceTaintEffectNone), string(resourceapi.DeviceTaintEffectNoSchedule), string(resourceapi.DeviceTaintEffectNoExecute))
}

func (c *hardwareCheck) event(path *field.Path, event *SimulatedEvent, devices, nodes map[string]bool) {
	actions := 0
	for _, set := range []bool{event.Fail != nil, event.Taint != nil, event.Recover, event.Remove, event.Add, event.NotReady != nil, event.Silent, event.Ready} {
		if set {
			actions++
		}
	}
	switch {
	case actions != 1:
		c.mistake(path, "exactly one of fail, taint, recover, remove, add, notReady, silent and ready is required")
	case event.At.Duration < 0:
		c.mistake(path.Child("at"), "%s: must not be negative", event.At.Duration)
	case event.Node != "" && nodes != nil && !nodes[event.Node]:
		c.mistake(path.Child("node"), "%q: none of these nodes has this name", event.Node)
	case event.IsOfNode() && event.Device != "":
		c.mistake(path.Child("device"), "%q: notReady, silent and ready are for nodes", event.Device)
	case !event.IsOfNode() && !devices[event.Device]:
		c.mistake(path.Child("device"), "%q: there is no such device", event.Device)
	}
	if event.Taint != nil {
		c.deviceTaint(path.Child("taint"), event.Taint)
	}
}
