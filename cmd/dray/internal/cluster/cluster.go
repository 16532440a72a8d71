package cluster

import (
	"fmt"
	"strconv"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/pools"
)

// Cluster holds nodes, devices and claims, and changes as placements are kept. It
// is not safe for concurrent use.
type Cluster struct {
	Nodes    []*corev1.Node // in the order read
	Snapshot *pools.Snapshot
	Ledger   *pools.Ledger

	objects   *input.Objects
	pods      []*corev1.Pod
	claims    map[types.NamespacedName]*resourceapi.ResourceClaim
	order     []types.NamespacedName // of claims, as read
	made      map[madeFor]types.NamespacedName
	templates map[types.NamespacedName]*resourceapi.ResourceClaimTemplate
	classes   allocator.Classes
	allocator *allocator.Allocator
}

// Options of a Cluster.
type Options struct {
	Features allocator.Features
	// Programs holds compiled expressions; nil makes an own cache.
	Programs *cel.Cache
	// Budget limits the search per node, in steps; 0 is the allocator's default.
	Budget int64
}

// New builds a Cluster. The objects are kept, not modified. An error is about claims
// that cannot be allocated the way their status says.
func New(objects *input.Objects, options Options) (*Cluster, error) {
	slices := objects.Slices
	if options.Features.DeviceTaints {
		slices = applyTaintRules(slices, objects.TaintRules)
	}
	snapshot := pools.Build(options.Features.PoolGates(), slices)
	c := &Cluster{
		Nodes:     objects.Nodes,
		Snapshot:  snapshot,
		Ledger:    pools.NewLedger(snapshot),
		objects:   objects,
		pods:      objects.Pods,
		claims:    make(map[types.NamespacedName]*resourceapi.ResourceClaim),
		made:      make(map[madeFor]types.NamespacedName),
		templates: make(map[types.NamespacedName]*resourceapi.ResourceClaimTemplate),
		classes:   allocator.ClassMap(objects.Classes...),
		allocator: allocator.New(allocator.Options{
			Features: options.Features, ShareID: numberedUIDs(), Programs: options.Programs, Budget: options.Budget,
		}),
	}
	for _, template := range objects.Templates {
		c.templates[keyOf(template)] = template
	}
	for _, claim := range objects.Claims {
		if err := c.addClaim(claim); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) addClaim(claim *resourceapi.ResourceClaim) error {
	c.claims[keyOf(claim)] = claim
	c.order = append(c.order, keyOf(claim))
	c.indexOwner(claim)
	if claim.Status.Allocation == nil {
		return nil
	}
	if err := c.Ledger.Allocate(claim); err != nil {
		return fmt.Errorf("ResourceClaim %s: status.allocation: %w", keyOf(claim), err)
	}
	return nil
}

// Node returns the node of that name, nil if there is none.
func (c *Cluster) Node(name string) *corev1.Node {
	for _, node := range c.Nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// Claim returns the claim as it is now, nil if there is none.
func (c *Cluster) Claim(key types.NamespacedName) *resourceapi.ResourceClaim { return c.claims[key] }

// Class returns the device class of that name, nil if there is none.
func (c *Cluster) Class(name string) *resourceapi.DeviceClass {
	for _, class := range c.objects.Classes {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// origin says where the workload was read; empty for claims made from templates.
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

type named interface {
	GetNamespace() string
	GetName() string
}

func keyOf(object named) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// uidSpace is the namespace of the UIDs that dray makes up.
var uidSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("dray.resource.k8s.io"))

// madeUpUID stands in for what an API server would draw at random. Equal input gives
// equal output.
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
