// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// variant is what has to be allocated for a pod on certain nodes. Pods without extended resources have one
// variant. With them, a device plugin may provide a resource on some nodes, and devices on others: each
// combination is a variant.
type variant struct {
	// problem is nil if nothing has to be allocated.
	problem *allocator.Problem
	// whatIfProblem is the same problem, compiled by the allocator for what-ifs.
	whatIfProblem func() *allocator.Problem
	// claims are those that the problem is about, in order.
	claims []*claimstate.Claim
	// names are those of the claims and their requests.
	names func() string
	// extended are the extended resources that devices have to provide.
	extended []corev1.ResourceName
	// special is the claim for extended resources, with the requests for these nodes. Nil if there is none.
	// It is allocated in place of the claimstate.Claim with Extended set.
	special *resourceapi.ResourceClaim
	// mappings say which containers use which requests of the special claim.
	mappings []corev1.ContainerExtendedResourceRequest
	// err says why the claims cannot be compiled. Then nothing else is set.
	err error
}

// objects returns the API objects of claims. For the claim with Extended set that is special.
func (v *variant) objects(claims []*claimstate.Claim) []*resourceapi.ResourceClaim {
	objects := make([]*resourceapi.ResourceClaim, len(claims))
	for i, claim := range claims {
		if objects[i] = claim.Object; claim.Extended {
			objects[i] = v.special
		}
	}
	return objects
}

// problemFor returns the problem to solve in a cycle: in a what-if, it is that of the what-if allocator.
func (v *variant) problemFor(c *cycle) *allocator.Problem {
	if c.preemption.IsWhatIf() {
		return v.whatIfProblem()
	}
	return v.problem
}

// namesOf returns the names of requests, and if there are several claims, of claims.
func namesOf(claims []*claimstate.Claim, objects []*resourceapi.ResourceClaim) string {
	var names []string
	for i, claim := range claims {
		if len(claims) > 1 {
			names = append(names, "claim", claim.Name)
		}
		for _, request := range objects[i].Spec.Devices.Requests {
			names = append(names, request.Name)
			for _, alternative := range request.FirstAvailable {
				names = append(names, "or", alternative.Name)
			}
		}
	}
	return strings.Join(names, " ")
}

// All implements refusal.Names.
func (v *variant) All() string { return v.names() }

// OfClaim implements refusal.Names: with several claims, it returns the name by which the pod refers to a claim.
func (v *variant) OfClaim(name string) string {
	if len(v.claims) == 1 {
		return ""
	}
	for _, claim := range v.claims {
		switch {
		case claim.Object.Namespace+"/"+claim.Object.Name != name:
		case claim.Extended:
			return "extended resources: "
		default:
			return "claim " + claim.Name + ": "
		}
	}
	return "claim " + name + ": "
}

// compile makes a variant of the unallocated claims of a pod. Special is the claim for extended resources, nil for none.
func (p *Plugin) compile(c *cycle, special *resourceapi.ResourceClaim, mappings []corev1.ContainerExtendedResourceRequest) *variant {
	v := &variant{special: special, mappings: mappings}
	var objects []*resourceapi.ResourceClaim
	for _, claim := range c.unallocated() {
		object := claim.Object
		switch {
		case claim.Pending != nil: // in flight, shared with another pod of the group
			continue
		case claim.Extended && special == nil:
			continue
		case claim.Extended:
			object = special
		}
		v.claims = append(v.claims, claim)
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		return v
	}
	core, whatIfCore := p.core, p.whatIfCore
	if c.budgetLevel > 0 {
		core, whatIfCore = p.retryCores[c.budgetLevel-1], p.retryCores[c.budgetLevel-1]
	}
	problem, err := core.Compile(objects, p.dra.DeviceClasses())
	if err != nil {
		return &variant{err: err}
	}
	v.problem = problem
	v.whatIfProblem = sync.OnceValue(func() *allocator.Problem {
		if supposed, err := whatIfCore.Compile(objects, p.dra.DeviceClasses()); err == nil {
			return supposed
		}
		return problem // a class was deleted meanwhile
	})
	v.names = sync.OnceValue(func() string { return namesOf(v.claims, objects) })
	return v
}

// variantFor returns the variant for a node, or the reason why the node cannot provide the extended resources.
func (p *Plugin) variantFor(c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (*variant, string) {
	if c.extended == nil {
		return c.withoutExtended, ""
	}
	special := c.claims[len(c.claims)-1]
	if !special.InMemoryOnly() {
		// PostFilter deletes this claim. It was made for one node, and Filter cannot tell whether it suits another.
		return nil, "the claim for extended resources of an earlier attempt has to be deleted first"
	}
	names, missing := podclaims.FromDevices(c.extended, nodeInfo.Node(), p.source.ClassOf)
	if missing != "" {
		return nil, fmt.Sprintf("the node does not have %s", missing)
	}
	if len(names) == 0 {
		return c.withoutExtended, ""
	}
	v := p.variantOf(c, pod, special, names)
	if v.err != nil {
		return nil, v.err.Error()
	}
	return v, ""
}

// variantOf returns the variant for nodes on which devices provide the named resources. Another plugin checks all others.
func (p *Plugin) variantOf(c *cycle, pod *corev1.Pod, special *claimstate.Claim, names []corev1.ResourceName) *variant {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.variants {
		if slices.Equal(known.extended, names) {
			return known
		}
	}
	object := *special.Object
	requests, mappings := podclaims.AllExtendedRequests(pod, names, p.source.ClassOf) // a class may be gone since
	object.Spec.Devices.Requests = requests
	v := p.compile(c, &object, mappings)
	v.extended = names
	c.variants = append(c.variants, v)
	return v
}
