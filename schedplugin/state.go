package schedplugin

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

const stateKey fwk.StateKey = Name

// cycle is what the plugin knows of a pod while it is being scheduled: written by PreFilter
// and used until the pod is bound or given up.
type cycle struct {
	// claims are those of the pod in the order of its spec. The one for extended resources,
	// if there is one, comes last. Empty if the plugin has nothing to do for the pod.
	claims []*podClaim
	// extended is what the pod asks of extended resources. Nil: none that devices can serve.
	extended *extendedRequest
	// view is what PreFilter saw. Nil if nothing has to be allocated.
	view *model.View
	// plain is what has to be allocated where it does not depend on the node.
	plain *variant
	// whatIf is set in clones once pods were added or removed. Nil: everything as it is.
	whatIf *whatIf

	// findings are shared with clones.
	*findings
}

// findings are what Filter found out, node by node, concurrently.
type findings struct {
	mu sync.Mutex
	// unavailable has the claims whose allocation was of no use on some node.
	unavailable sets.Set[*podClaim]
	// suited are the nodes which passed Filter, by name.
	suited map[string]*suitable
	// variants are by the names of the extended resources that devices have to serve.
	variants map[string]*variant
	// refusals are why nodes do not have the devices.
	refusals map[refusalKey]*refusal

	// leavingClaims are set by leavingOnce.
	leavingOnce   sync.Once
	leavingClaims []*resourceapi.ResourceClaim
	// nomination is set by nominationOnce.
	nominationOnce sync.Once
	nomination     fwk.NodeInfo
}

// suitable is a node that passed Filter.
type suitable struct {
	node    *corev1.Node
	variant *variant
}

func newCycle() *cycle {
	return &cycle{findings: &findings{
		unavailable: sets.New[*podClaim](),
		suited:      make(map[string]*suitable),
		variants:    make(map[string]*variant),
		refusals:    make(map[refusalKey]*refusal),
	}}
}

// Clone implements StateData. A clone is for asking what would be if pods came or went.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.whatIf = c.whatIf.clone()
	return &clone
}

func (c *cycle) idle() bool { return len(c.claims) == 0 }

// unallocated are the claims that have no allocation in the API server.
func (c *cycle) unallocated() []*podClaim {
	var list []*podClaim
	for _, claim := range c.claims {
		if claim.object.Status.Allocation == nil {
			list = append(list, claim)
		}
	}
	return list
}

// usage is what is in use as far as the pod is concerned.
func (c *cycle) usage() *pools.Usage {
	if c.whatIf != nil {
		return c.whatIf.ledger.Usage()
	}
	return c.view.Usage
}

// pass records a node that suits the pod, as it is.
func (c *cycle) pass(node *corev1.Node, v *variant) {
	if c.whatIf != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suited[node.Name] = &suitable{node: node, variant: v}
}

// suits returns a node that passed Filter, nil if it did not.
func (c *cycle) suits(node string) *suitable {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.suited[node]
}

// refuse records claims that are allocated, but not for a node.
func (c *cycle) refuse(claims []*podClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unavailable.Insert(claims...)
}

// refused returns the claims that were of no use on some node, in no order.
func (c *cycle) refused() []*podClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unavailable.UnsortedList()
}

// cycleOf reads the state of a pod.
func cycleOf(state fwk.CycleState) (*cycle, error) {
	stored, err := state.Read(stateKey)
	if err != nil {
		return nil, fmt.Errorf("state of the scheduling cycle: %w", err)
	}
	c, ok := stored.(*cycle)
	if !ok {
		return nil, fmt.Errorf("state of the scheduling cycle is %T", stored)
	}
	return c, nil
}
