// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is what the statements of a directive describe.
type cluster struct {
	nodes     []*corev1.Node
	slices    []*resourceapi.ResourceSlice
	classes   []*resourceapi.DeviceClass
	allocated []*resourceapi.ResourceClaim
	claims    []*resourceapi.ResourceClaim
	gone      []string // names of slices
	released  []string // names of claims
	shares    int      // number of shares so far, from which IDs are made
}

// parseCluster reads statements. The numbers of shares in use continue from shares.
func parseCluster(input []source, shares int) (*cluster, error) {
	statements, err := blocks(input)
	if err != nil {
		return nil, err
	}
	c := &cluster{shares: shares}
	for _, b := range statements {
		object, err := c.statement(b)
		if err == nil && object != nil {
			err = c.add(object)
		}
		if err != nil {
			return nil, at(b.line, err)
		}
	}
	return c, nil
}

// statement parses a block. The object is nil if the block was added to an earlier object.
func (c *cluster) statement(b block) (any, error) {
	w := b.words()
	switch statement := w.next(); statement {
	case "node":
		return parseNode(b)
	case "class":
		return parseClass(b)
	case "slice":
		return parseSlice(b)
	case "claim":
		return parseClaim(b)
	case "allocated":
		return parseAllocated(b, c.nextShare)
	case "yaml":
		return parseManifest(b)
	case "gone":
		return nil, namesIn(&c.gone, w)
	case "released":
		return nil, namesIn(&c.released, w)
	default:
		if w.peek() == arrow {
			return c.allocatedDevice(statement, w)
		}
		return nil, fmt.Errorf("unknown statement %q", statement)
	}
}

// namesIn reads one or more names.
func namesIn(names *[]string, w *words) error {
	for first := true; first || w.peek() != ""; first = false {
		name, err := w.operand("name")
		if err != nil {
			return err
		}
		*names = append(*names, name)
	}
	return nil
}

// allocatedDevice reads claim/request -> driver/pool/device. All such lines of a claim make one object.
func (c *cluster) allocatedDevice(word string, w *words) (any, error) {
	name, request, found := strings.Cut(word, "/")
	if !found {
		return nil, fmt.Errorf("expected claim/request, found %q", word)
	}
	result, err := parseResult(request, w, c.nextShare)
	if err != nil {
		return nil, within(word, err)
	}
	for _, claim := range c.allocated {
		if claim.Name == name {
			devices := &claim.Status.Allocation.Devices
			devices.Results = append(devices.Results, result)
			return nil, nil
		}
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.Namespace = name, defaultNamespace
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}},
	}
	return claim, nil
}

func (c *cluster) nextShare() types.UID {
	c.shares++
	return uid("share-" + strconv.Itoa(c.shares))
}

func (c *cluster) add(object any) error {
	switch o := object.(type) {
	case *corev1.Node:
		return addTo(&c.nodes, o, "node")
	case *resourceapi.ResourceSlice:
		return addTo(&c.slices, o, "slice")
	case *resourceapi.DeviceClass:
		return addTo(&c.classes, o, "class")
	case *resourceapi.ResourceClaim:
		if o.Status.Allocation != nil {
			return addTo(&c.allocated, o, "allocated claim")
		}
		return addTo(&c.claims, o, "claim")
	}
	return nil
}

// object has the methods that all API objects of a cluster have.
type object interface {
	GetName() string
	GetNamespace() string
}

func position[T object](objects []T, o T) int {
	for i, other := range objects {
		if other.GetName() == o.GetName() && other.GetNamespace() == o.GetNamespace() {
			return i
		}
	}
	return -1
}

func addTo[T object](objects *[]T, o T, kind string) error {
	if o.GetName() == "" {
		return errors.New(kind + " without a name")
	}
	if position(*objects, o) >= 0 {
		return fmt.Errorf("%s %s is there already", kind, o.GetName())
	}
	*objects = append(*objects, o)
	return nil
}

// extended returns c with the objects of more, which replace those of the same name.
func (c *cluster) extended(more *cluster) *cluster {
	return &cluster{
		nodes:     replaced(c.nodes, more.nodes),
		slices:    replaced(c.slices, more.slices),
		classes:   replaced(c.classes, more.classes),
		allocated: replaced(c.allocated, more.allocated),
		claims:    replaced(c.claims, more.claims),
		shares:    more.shares,
	}
}

func replaced[T object](objects, more []T) []T {
	all := append([]T(nil), objects...)
	for _, o := range more {
		if i := position(objects, o); i >= 0 {
			all[i] = o
		} else {
			all = append(all, o)
		}
	}
	return all
}
