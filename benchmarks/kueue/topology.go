// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
)

// levels are those of the topology, from the widest to a single node.
var levels = []string{"example.com/block", "example.com/rack", corev1.LabelHostname}

// gpus is the extended resource that the pods of a gang ask for.
const gpus corev1.ResourceName = "example.com/gpu"

// gang is pods that start together or not at all.
type gang struct {
	pods, gpus int
	// leader is how many GPUs the one pod more has that leads the others, and 0 if there is none.
	leader int
	// level is an index of levels: all pods are to be in one domain of it, or are only preferred to be.
	level     int
	preferred bool
}

// queues is kueue's cache with one queue, whose only flavor is nodes of a topology.
type queues struct{ *scheduler.Cache }

// noObjects stands for a client of a cluster in which kueue has admitted nothing yet.
type noObjects struct{ client.Client }

// List implements client.Reader for queues and workloads, of which there are none.
func (noObjects) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

const flavor, queue = "nodes", "queue"

// newQueues tells kueue of nodes, and of pods that others run on them.
func newQueues(ctx context.Context, nodes []*corev1.Node, pods []*corev1.Pod) (queues, error) {
	q := queues{scheduler.New(noObjects{})}
	topology := &kueueapi.Topology{ObjectMeta: metav1.ObjectMeta{Name: "topology"}}
	for _, level := range levels {
		topology.Spec.Levels = append(topology.Spec.Levels, kueueapi.TopologyLevel{NodeLabel: level})
	}
	q.AddOrUpdateTopology(logr.Discard(), topology)
	name := kueueapi.TopologyReference(topology.Name)
	q.AddOrUpdateResourceFlavor(logr.Discard(), &kueueapi.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: flavor}, Spec: kueueapi.ResourceFlavorSpec{TopologyName: &name},
	})
	for _, node := range nodes {
		q.TASCache().SyncNode(node)
	}
	for _, pod := range pods {
		q.TASCache().Update(pod, logr.Discard())
	}
	return q, q.AddClusterQueue(ctx, &kueueapi.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: queue}, Spec: kueueapi.ClusterQueueSpec{
		ResourceGroups: []kueueapi.ResourceGroup{{
			CoveredResources: []corev1.ResourceName{gpus},
			Flavors:          []kueueapi.FlavorQuotas{{Name: flavor, Resources: []kueueapi.ResourceQuota{{Name: gpus, NominalQuota: resource.MustParse("1000000")}}}},
		}},
	}})
}

// nodes is a snapshot of the nodes of the queue.
func (q queues) nodes(ctx context.Context) (*scheduler.TASFlavorSnapshot, error) {
	all, err := q.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	of := all.ClusterQueue(queue)
	if of == nil || of.TASFlavors[flavor] == nil {
		return nil, errors.New("kueue does not know the topology")
	}
	return of.TASFlavors[flavor], nil
}

// placed is how many pods of a gang are on each node.
type placed map[string]int

// place asks kueue for places of a gang. There are none if it does not fit.
func place(ctx context.Context, nodes *scheduler.TASFlavorSnapshot, g gang) (placed, error) {
	result := nodes.FindTopologyAssignmentsForFlavor(ctx, g.requests())
	if result.Failure() != nil {
		return nil, nil
	}
	places := placed{}
	for name, assignment := range result {
		if assignment.TopologyAssignment == nil {
			return nil, fmt.Errorf("kueue has neither places for the pods %s nor a reason", name)
		}
		for _, domain := range assignment.TopologyAssignment.Domains {
			places[domain.Values[len(domain.Values)-1]] += int(domain.Count)
		}
	}
	return places, nil
}

// requests are what a gang asks for, as kueue has it.
func (g gang) requests() scheduler.FlavorTASRequests {
	request := &kueueapi.PodSetTopologyRequest{}
	if level := levels[g.level]; g.preferred {
		request.Preferred = &level
	} else {
		request.Required = &level
	}
	group := "gang"
	of := func(name kueueapi.PodSetReference, pods, each int) scheduler.TASPodSetRequests {
		return scheduler.TASPodSetRequests{
			PodSet: &kueueapi.PodSet{Name: name, Count: int32(pods), TopologyRequest: request}, Count: int32(pods), Flavor: flavor, PodSetGroupName: &group,
			SinglePodRequests: resources.NewRequestsFromMap(map[corev1.ResourceName]int64{gpus: int64(each)}),
		}
	}
	list := scheduler.FlavorTASRequests{of("workers", g.pods, g.gpus)}
	if g.leader > 0 {
		list = append(list, of("leader", 1, g.leader))
	}
	return list
}

// level is the index of the narrowest level of which all nodes are in one domain, -1 if there is none.
func (p placed) level(labels map[string]map[string]string) int {
	names := slices.Collect(maps.Keys(p))
	for level, label := range levels {
		if slices.ContainsFunc(names, func(name string) bool { return labels[name][label] != labels[names[0]][label] }) {
			return level - 1
		}
	}
	return len(levels) - 1
}
