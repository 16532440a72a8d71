// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/workload"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
)

// Cluster has nodes, devices and claims. Keep and similar methods change it. It is not safe for
// concurrent use.
type Cluster struct {
	Nodes  []*corev1.Node // in the order read
	Ledger *pools.Ledger

	objects  *input.Objects
	options  Options
	byName   []*corev1.Node // nodes sorted by name
	pods     []*corev1.Pod
	podByKey map[types.NamespacedName]*corev1.Pod
	rooms    map[string]room // by node
	// extended has the class of each extended resource. It is empty if the feature is off.
	extended  map[corev1.ResourceName]*resourceapi.DeviceClass
	claims    *podclaims.Resolver
	order     []types.NamespacedName // of claims, as they were read
	templates []types.NamespacedName
	classes   allocator.Classes
	allocator *allocator.Allocator
	programs  *cel.Cache
	memo      *cel.Memo
	ofClass   map[string]bool // cache of Published
	// wholePools is the cache of Reached.
	wholePools map[pools.PoolID]wholePool
	refused    refused
}

// manyResults is the size of the cache of selectors' results.
const manyResults = 1 << 16

// fewPrograms is the default size of the cache of expressions.
const fewPrograms = 64

// Programs returns the cache of compiled expressions.
func (c *Cluster) Programs() *cel.Cache { return c.programs }

// Options of a Cluster.
type Options struct {
	Features allocator.Features
	// NoTaintRules ignores DeviceTaintRules.
	NoTaintRules bool
	// ExtendedResources lets devices provide extended resources of containers.
	ExtendedResources bool
	// GroupClaims lets the pods of a PodGroup share its claims.
	GroupClaims bool
	// Programs is the cache of compiled expressions. nil stands for a new one.
	Programs *cel.Cache
	// Budget limits the search per node, in steps; 0 is the allocator's default.
	Budget int64
	// Policy and Topology determine which devices of a node are preferred. nil stands for
	// kube-scheduler's order.
	Policy   allocator.Remembered
	Topology []resourceapi.FullyQualifiedName
}

// New returns a Cluster. The objects are kept, but not modified. It returns an error if the status
// of a claim has an allocation that is not possible.
func New(objects *input.Objects, options Options) (*Cluster, error) {
	published := objects.Slices
	if options.Features.DeviceTaints && !options.NoTaintRules {
		published = podclaims.ApplyTaintRules(published, objects.TaintRules)
	}
	if options.Programs == nil {
		options.Programs = cel.NewCache(fewPrograms)
	}
	snapshot := pools.Build(options.Features.PoolGates(), published)
	c := &Cluster{
		Nodes:    objects.Nodes,
		Ledger:   pools.NewLedger(snapshot),
		options:  options,
		objects:  objects,
		pods:     append(slices.Clone(objects.Pods), workload.Expand(objects.Controllers, objects.Pods, objects.Nodes)...),
		rooms:    make(map[string]room),
		programs: options.Programs,
		memo:     cel.NewMemo(manyResults),
		ofClass:  make(map[string]bool),

		wholePools: make(map[pools.PoolID]wholePool),
		claims:     podclaims.NewResolver(madeUpUID),
		classes:    allocator.ClassMap(objects.Classes...),
		allocator: allocator.New(allocator.Options{
			Features: options.Features, ShareID: numberedUIDs(), Budget: options.Budget,
			Policy: options.Policy, Topology: options.Topology,
			Memory: allocator.NewMemory(allocator.MemoryOptions{Programs: options.Programs}),
		}),
	}
	if options.ExtendedResources {
		c.extended = podclaims.ClassesByResource(objects.Classes)
	}
	c.podByKey = make(map[types.NamespacedName]*corev1.Pod, len(c.pods))
	for _, pod := range c.pods {
		c.podByKey[keyOf(pod)] = pod
	}
	c.byName = slices.SortedFunc(slices.Values(c.Nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, template := range objects.Templates {
		c.claims.SetTemplate(template)
		c.templates = append(c.templates, keyOf(template))
	}
	if options.GroupClaims {
		for _, group := range objects.PodGroups {
			c.claims.SetGroup(group)
		}
	}
	for _, pod := range objects.Pods {
		if node := c.Node(pod.Spec.NodeName); node != nil && nodefit.Occupies(pod) {
			c.addPod(pod, node)
		}
	}
	for _, claim := range objects.Claims {
		if err := c.addClaim(claim); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) addClaim(claim *resourceapi.ResourceClaim) error {
	c.claims.SetClaim(claim)
	c.order = append(c.order, keyOf(claim))
	if claim.Status.Allocation == nil {
		return nil
	}
	if err := c.Ledger.Assume(claim); err != nil {
		return fmt.Errorf("ResourceClaim %s: status.allocation: %w", keyOf(claim), err)
	}
	return nil
}

// Node returns the node of that name, nil if there is none.
func (c *Cluster) Node(name string) *corev1.Node {
	i, found := slices.BinarySearchFunc(c.byName, name, func(node *corev1.Node, name string) int { return cmp.Compare(node.Name, name) })
	if !found {
		return nil
	}
	return c.byName[i]
}

// Claim returns the current claim, nil if there is none.
func (c *Cluster) Claim(key types.NamespacedName) *resourceapi.ResourceClaim {
	return c.claims.Claim(key)
}

// Class returns the device class of that name, nil if there is none.
func (c *Cluster) Class(name string) *resourceapi.DeviceClass {
	for _, class := range c.objects.Classes {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// origin returns where a workload was read. It is empty for claims made from templates.
func (c *Cluster) origin(w Workload) string {
	kind := "ResourceClaim"
	if w.Pod != nil {
		kind = "Pod"
	}
	origin, found := c.objects.Origin(kind, w.Key().Namespace, w.Key().Name)
	if !found {
		return ""
	}
	return origin.String()
}

// TemplateOrigin returns where a template was read.
func (c *Cluster) TemplateOrigin(namespace, name string) string {
	origin, found := c.objects.Origin("ResourceClaimTemplate", namespace, name)
	if !found {
		return ""
	}
	return origin.String()
}

type named interface {
	GetNamespace() string
	GetName() string
}

func keyOf(object named) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// uidSpace is the namespace of generated UIDs.
var uidSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("dray.resource.k8s.io"))

// madeUpUID returns a UID for an object that no API server has created. It is deterministic.
func madeUpUID(kind string, key types.NamespacedName) types.UID {
	return types.UID(uuid.NewSHA1(uidSpace, []byte(kind+"/"+key.String())).String())
}

func numberedUIDs() func() types.UID {
	n := 0
	return func() types.UID {
		n++
		return types.UID(uuid.NewSHA1(uidSpace, []byte("share/"+strconv.Itoa(n))).String())
	}
}
