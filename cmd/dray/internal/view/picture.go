// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// Picture is the data of the page at one time. It is immutable once made.
type Picture struct {
	// Revision is the number of the picture within its source, from 1.
	Revision int64 `json:"revision"`
	// Source is a description of the source.
	Source string `json:"source"`
	// Time is when the picture was made, in RFC 3339 format.
	Time    string           `json:"time"`
	Nodes   []Node           `json:"nodes"`
	Shapes  []Shape          `json:"shapes"`
	Pools   []Pool           `json:"pools"`
	Claims  map[string]Claim `json:"claims"` // those that hold devices, by namespace/name
	Waiting []Waiting        `json:"waiting"`
	// Notes are warnings, for instance about the input.
	Notes []string `json:"notes,omitempty"`

	answers []*render.Answer
	shapes  *shapes
	counted *counted
}

// Answers returns the explanations that Waiting refers to.
func (p *Picture) Answers() []*render.Answer { return p.answers }

// Options configure NewPicture.
type Options struct {
	// Covers selects workloads that wait. nil selects all.
	Covers func(*cluster.Cluster, cluster.Workload) bool
	// Notes come before those of the picture.
	Notes []string
	// Source and Time are copied to the picture.
	Source string
	Time   time.Time
	// Before is an earlier picture of the source, or nil. Its Shapes are extended.
	Before *Picture
}

// NewPicture makes a picture of a cluster. It places waiting workloads as dray explain does. The
// placements are kept in the cluster, and the picture keeps the cluster, so the caller must not use
// it any more. The error is the context's, or about a node selector of a slice.
func NewPicture(ctx context.Context, c *cluster.Cluster, options Options) (*Picture, error) {
	states, err := c.Inventory(nil)
	if err != nil {
		return nil, err
	}
	p := &Picture{
		Revision: 1, Source: options.Source, Time: options.Time.UTC().Format(time.RFC3339),
		Claims: make(map[string]Claim), Notes: slices.Clone(options.Notes),
		Nodes: make([]Node, 0, len(c.Nodes)), Waiting: []Waiting{}, Pools: make([]Pool, 0, len(states)),
	}
	p.counted = &counted{cluster: c, states: states}
	if options.Before != nil {
		p.Revision, p.shapes = options.Before.Revision+1, options.Before.shapes.extend()
	}
	if p.shapes == nil {
		p.shapes = newShapes(states)
	}
	for i := range states {
		p.Pools = append(p.Pools, newPool(&states[i], p.shapes))
	}
	p.Shapes = p.shapes.list
	p.addNodes(c.Nodes)
	p.addClaims(c)
	return p, p.addWaiting(ctx, c, options.Covers)
}

// addClaims adds the claims that hold devices.
func (p *Picture) addClaims(c *cluster.Cluster) {
	for i := range p.Pools {
		for k := range p.Pools[i].Devices {
			for _, held := range p.Pools[i].Devices[k].Held {
				if _, known := p.Claims[held.Claim]; !known {
					p.Claims[held.Claim] = newClaim(c, held)
				}
			}
		}
	}
}

// Claim is a claim that holds devices.
type Claim struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Pods      []string `json:"pods,omitempty"`
	// Since is when the claim was allocated, in RFC 3339 format. It is empty if that is unknown.
	Since string `json:"since,omitempty"`
}

func newClaim(c *cluster.Cluster, held Held) Claim {
	claim := Claim{Namespace: held.namespace, Name: held.name, Pods: held.pods}
	object := c.Claim(types.NamespacedName{Namespace: held.namespace, Name: held.name})
	if object != nil && object.Status.Allocation != nil && object.Status.Allocation.AllocationTimestamp != nil {
		claim.Since = object.Status.Allocation.AllocationTimestamp.UTC().Format(time.RFC3339)
	}
	return claim
}

// Node is a node of the map.
type Node struct {
	Name string `json:"name"`
	// Kind is a summary of the node's own devices.
	Kind     string            `json:"kind"`
	Labels   map[string]string `json:"labels,omitempty"`
	Cordoned bool              `json:"cordoned,omitempty"`
	Taints   []string          `json:"taints,omitempty"`

	// pools has indexes in Picture.Pools of the pools that only this node reaches.
	pools []int
}

func nodeTaints(node *corev1.Node) []string {
	var texts []string
	for _, t := range node.Spec.Taints {
		texts = append(texts, t.ToString())
	}
	return texts
}
