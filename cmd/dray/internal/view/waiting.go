// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// Waiting is a pod without devices, or a claim without devices that no pod uses.
type Waiting struct {
	Kind      string `json:"kind"` // Pod or ResourceClaim
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Group is the PodGroup of the pod, as namespace/name.
	Group string `json:"group,omitempty"`
	// Node is the node on which it can be placed now, or empty.
	Node string `json:"node,omitempty"`
	// Devices are the devices that it would get there.
	Devices []Taken `json:"devices,omitempty"`
	// Reason is one line on why it waits. It is empty if it can be placed.
	Reason string `json:"reason,omitempty"`
	// Answer is the index of its explanation, or -1 if it can be placed.
	Answer int `json:"answer"`
	// Like says that the explanation is that of an earlier pod, which is refused for the same
	// reasons.
	Like bool `json:"like,omitempty"`
	// Nearest has some of the closest nodes.
	Nearest []string `json:"nearest,omitempty"`
}

// Taken identifies a device.
type Taken struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

// maxNearest is the maximum length of Waiting.Nearest.
const maxNearest = 50

// addWaiting places waiting workloads one after the other, the pods of a PodGroup together, and
// explains those that cannot be placed.
func (p *Picture) addWaiting(ctx context.Context, c *cluster.Cluster, covers func(*cluster.Cluster, cluster.Workload) bool) error {
	explained := make(map[*cluster.Placement]int)
	before, groups := 0, c.GangRun(false)
	for _, w := range c.Workloads() {
		together, err := groups.Turn(ctx, w, c.Nodes)
		if err != nil {
			return err
		}
		placement := together
		if placement == nil {
			if placement, err = c.Place(ctx, w, c.Nodes); err != nil {
				return err
			}
		}
		if covers == nil || covers(c, w) {
			p.Waiting = append(p.Waiting, p.waiting(c, w, placement, before, explained))
		}
		if together == nil { // the pods of a group are kept in their turn
			if err := c.Keep(placement); err != nil {
				return err
			}
		}
		if placement.Placed() {
			before++
			clear(explained) // explanations are not reused after a placement, since more is in use
		}
	}
	return nil
}

func (p *Picture) waiting(c *cluster.Cluster, w cluster.Workload, placement *cluster.Placement, before int, explained map[*cluster.Placement]int) Waiting {
	entry := Waiting{Kind: "ResourceClaim", Namespace: w.Key().Namespace, Name: w.Key().Name, Node: placement.Node, Answer: -1}
	if w.Pod != nil {
		entry.Kind, entry.Group = "Pod", groupOf(w.Pod)
	}
	if placement.Placed() {
		entry.Devices = taken(placement)
		return entry
	}
	asked := placement.Asked()
	at, known := explained[asked]
	if !known {
		at = len(p.answers)
		p.answers = append(p.answers, render.NewAnswer(c, placement, before))
		explained[asked] = at
	}
	answer := p.answers[at]
	entry.Answer, entry.Like, entry.Reason = at, known, answer.Headline()
	if len(answer.Refusals) > 0 {
		nodes := answer.Refusals[0].Nodes
		entry.Nearest = slices.Clone(nodes[:min(maxNearest, len(nodes))])
	}
	return entry
}

// taken returns the devices that a placement adds to those in use.
func taken(placement *cluster.Placement) []Taken {
	var devices []Taken
	for i, claim := range placement.Claims {
		if placement.Before[i].Status.Allocation != nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, takenBy(&result))
		}
	}
	return devices
}

func takenBy(result *resourceapi.DeviceRequestAllocationResult) Taken {
	return Taken{result.Driver, result.Pool, result.Device}
}

// groupOf returns the PodGroup of a pod, or an empty string.
func groupOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return pod.Namespace + "/" + *pod.Spec.SchedulingGroup.PodGroupName
}
