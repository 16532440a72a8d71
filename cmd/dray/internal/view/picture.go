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

// Picture is what the page shows of a cluster at one time. It is not modified once made.
type Picture struct {
	// Revision counts the pictures of one source, from 1.
	Revision int64 `json:"revision"`
	// Source says in one line what is shown.
	Source string `json:"source"`
	// Time is when it was made, RFC 3339.
	Time    string           `json:"time"`
	Nodes   []Node           `json:"nodes"`
	Shapes  []Shape          `json:"shapes"`
	Pools   []Pool           `json:"pools"`
	Claims  map[string]Claim `json:"claims"` // that hold devices, by namespace/name
	Waiting []Waiting        `json:"waiting"`
	// Notes say what is left out, and what was wrong with the input.
	Notes []string `json:"notes,omitempty"`

	answers []*render.Answer
	shapes  *shapes
	counted *counted
}

// Answers are the explanations that Waiting refers to.
func (p *Picture) Answers() []*render.Answer { return p.answers }

// Options of a picture.
type Options struct {
	// Covers chooses among what waits; nil shows all.
	Covers func(*cluster.Cluster, cluster.Workload) bool
	// Notes are put in front of those of the picture.
	Notes []string
	// Source and Time are those of the picture.
	Source string
	Time   time.Time
	// Before is an earlier picture of the source, whose Shapes this one goes on with; nil if there is none.
	Before *Picture
}

// NewPicture looks at a cluster, and places what waits as dray explain does. The cluster is used up: what
// could be placed has its devices afterwards, and the picture keeps it. The error is the context's, or about a node selector of a slice.
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
		p.Revision, p.shapes = options.Before.Revision+1, options.Before.shapes.more()
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

// addClaims describes the claims that hold devices.
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
	// Since is when it was allocated, RFC 3339; empty if that is not known.
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
	// Kind says what devices of its own it has.
	Kind     string            `json:"kind"`
	Labels   map[string]string `json:"labels,omitempty"`
	Cordoned bool              `json:"cordoned,omitempty"`
	Taints   []string          `json:"taints,omitempty"`

	// pools are indexes of Picture.Pools: those that only this node reaches.
	pools []int
}

func nodeTaints(node *corev1.Node) []string {
	var texts []string
	for _, t := range node.Spec.Taints {
		texts = append(texts, t.ToString())
	}
	return texts
}
