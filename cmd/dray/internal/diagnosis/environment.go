// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// celName qualifies the name of a capacity with the driver of the node's devices.
func celName(name string, d *Diagnosis) cel.Name {
	if strings.Contains(name, "/") || len(d.pools) == 0 {
		return cel.Name{Domain: domain(name), ID: id(name)}
	}
	for i := range d.pools {
		for k := range d.pools[i].Devices {
			if _, has := d.pools[i].Devices[k].Object.Capacity[resourceapi.QualifiedName(name)]; has {
				return cel.Name{Domain: d.pools[i].Driver, ID: name}
			}
		}
	}
	return cel.Name{Domain: d.pools[0].Driver, ID: name}
}

// Environment returns problems of the cluster that may explain failed placements. No driver
// publishes devices, or none of a requested class, or slices name nodes that do not exist.
func Environment(c *cluster.Cluster, refused ...*cluster.Placement) []string {
	if len(c.Slices()) == 0 {
		return []string{"there are no ResourceSlices: no DRA driver publishes devices"}
	}
	return limit(append(nothingOfClass(c, refused), strayed(c)...))
}

// strayed returns notes about slices for nodes that do not exist.
func strayed(c *cluster.Cluster) []string {
	var names []string
	for _, node := range c.Nodes {
		names = append(names, node.Name)
	}
	var notes []string
	told := make(map[string]bool)
	for _, slice := range c.Slices() {
		name := ptr.Deref(slice.Spec.NodeName, "")
		if name == "" || told[name] || c.Node(name) != nil {
			continue
		}
		told[name] = true
		notes = append(notes, fmt.Sprintf("ResourceSlice %s of driver %s is for node %s, which does not exist%s",
			slice.Name, slice.Spec.Driver, name, orElse("nodes are", name, names, "")))
	}
	return notes
}

// nothingOfClass returns notes about requested classes without a published device.
func nothingOfClass(c *cluster.Cluster, refused []*cluster.Placement) []string {
	var notes []string
	told := make(map[string]bool)
	for _, p := range refused {
		for _, claim := range p.Before {
			for _, name := range cluster.ClassNames(claim) {
				class := c.Class(name)
				if told[name] || class == nil || c.Published(class) {
					continue
				}
				told[name] = true
				notes = append(notes, fmt.Sprintf("no driver publishes a device of class %s%s; the drivers that publish are %s",
					name, because(class), strings.Join(drivers(c), ", ")))
			}
		}
	}
	return notes
}

func because(class *resourceapi.DeviceClass) string {
	if len(class.Spec.Selectors) != 1 || class.Spec.Selectors[0].CEL == nil {
		return ""
	}
	return " (" + class.Spec.Selectors[0].CEL.Expression + ")"
}

func drivers(c *cluster.Cluster) []string {
	names := make(map[string]bool)
	for _, slice := range c.Slices() {
		names[slice.Spec.Driver] = true
	}
	return limit(slices.Sorted(maps.Keys(names)))
}
