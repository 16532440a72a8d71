// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate"
)

// Topologies are what the pods of a group must have in common: the labels of spec.schedulingConstraints, then what its annotation says
// of their devices. NotLookedAt lists what a simulation leaves aside of that. The error is about the annotation.
func (c *Cluster) Topologies(g Gang) (list []simulate.Topology, notLookedAt []string, err error) {
	group, err := extension.GroupOf(g.object.Annotations)
	if err != nil {
		return nil, nil, fmt.Errorf("PodGroup %s: %w", g.Key, err)
	}
	if constraints := g.object.Spec.SchedulingConstraints; constraints != nil {
		for _, one := range constraints.Topology {
			list = append(list, simulate.Topology{NodeLabel: one.Key})
		}
	}
	for _, match := range group.Constraints {
		list = append(list, simulate.Topology{DeviceAttribute: match.MatchAttribute, Requests: match.Requests})
	}
	for _, match := range group.Preferred {
		list = append(list, simulate.Topology{DeviceAttribute: match.MatchAttribute, Requests: match.Requests, Preferred: true})
	}
	if len(group.MaxDistinct) > 0 {
		notLookedAt = append(notLookedAt, "maxDistinct of the PodGroup")
	}
	if len(list) > 0 && c.runs(g) {
		notLookedAt = append(notLookedAt, "what pods of the PodGroup have that run already")
	}
	return list, notLookedAt, nil
}

// runs reports whether a pod of a group runs.
func (c *Cluster) runs(g Gang) bool {
	for _, pod := range c.pods {
		if nodefit.Occupies(pod) && c.groupOf(Workload{Pod: pod}) == g.object {
			return true
		}
	}
	return false
}

// gangDomain are nodes to which all pods of a group may go.
type gangDomain struct {
	// topology is their label with its value, empty if there is no constraint.
	topology string
	nodes    []int
}

// topologyKey is the label of which all pods of a group go to nodes with one value, empty if there is none.
func topologyKey(group *schedulingapi.PodGroup) string {
	constraints := group.Spec.SchedulingConstraints
	if constraints == nil || len(constraints.Topology) == 0 {
		return ""
	}
	return constraints.Topology[0].Key // the API has one at most
}

// gangDomains divides nodes by the topology constraint of a group, in the order of their first nodes. Nodes without the label are in none, and
// where pods of the group run, there is that one only. Without a constraint there is one, of all nodes.
func (c *Cluster) gangDomains(g Gang, nodes []*corev1.Node) ([]gangDomain, error) {
	key := topologyKey(g.object)
	if key == "" {
		all := gangDomain{}
		for n := range nodes {
			all.nodes = append(all.nodes, n)
		}
		return []gangDomain{all}, nil
	}
	only, err := c.gangRunsIn(g, key)
	if err != nil {
		return nil, err
	}
	var list []gangDomain
	for n, node := range nodes {
		value, labelled := node.Labels[key]
		if !labelled || only != nil && value != *only {
			continue
		}
		topology := key + "=" + value
		at := slices.IndexFunc(list, func(d gangDomain) bool { return d.topology == topology })
		if at < 0 {
			at, list = len(list), append(list, gangDomain{topology: topology})
		}
		list[at].nodes = append(list[at].nodes, n)
	}
	return list, nil
}

// gangRunsIn is the value of the label of the nodes on which pods of a group run, nil if none does.
func (c *Cluster) gangRunsIn(g Gang, key string) (*string, error) {
	var only *string
	for _, pod := range c.pods {
		if !nodefit.Occupies(pod) || c.groupOf(Workload{Pod: pod}) != g.object {
			continue
		}
		at := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName })
		if at < 0 {
			continue // it is not known where that is
		}
		value, labelled := c.Nodes[at].Labels[key]
		switch {
		case !labelled:
			return nil, fmt.Errorf("spec.schedulingConstraints.topology[0].key: pod %s of the group runs on node %s, which lacks the label %s", pod.Name, pod.Spec.NodeName, key)
		case only != nil && *only != value:
			return nil, fmt.Errorf("spec.schedulingConstraints.topology[0].key: pods of the group run on nodes with %s=%s and %s=%s", key, *only, key, value)
		}
		only = &value
	}
	return only, nil
}

// ask asks about each domain. As for kube-scheduler, one in which the pods fit one after the other goes first, then one in which they
// fit together; of several, that with the most pods. Without one it is that with the most places. The error says that claims cannot be allocated, or is the context's.
func (o *GangOutcome) ask(ctx context.Context, q gang.Question, domains []gangDomain) error {
	exact, open := true, false
	best := -1
	for _, d := range domains {
		within := q.Within(d.nodes)
		r, err := gang.Ask(ctx, within)
		if err != nil {
			return err
		}
		exact, open = exact && r.Exact, open || r.Verdict == allocator.NotDecided
		rank := r.Placed()
		if r.Verdict == allocator.Satisfiable {
			rank += len(q.Pods)
			if r.OneByOne {
				rank += len(q.Pods)
			}
		}
		if rank > best {
			best, o.Result, o.question, o.domain, o.Topology = rank, r, within, d.nodes, d.topology
		}
	}
	if o.Verdict != allocator.Satisfiable {
		o.Exact = exact
		if open {
			o.Verdict, o.Exact = allocator.NotDecided, false
		}
	}
	return nil
}
