package schedplugin

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// variant is what has to be allocated for a pod on nodes of one kind. There is one for all
// nodes, except for pods with extended resources, which a device plugin provides on some
// nodes and devices on others.
type variant struct {
	// problem is nil if nothing has to be allocated.
	problem *allocator.Problem
	// claims are those that the problem is about, in order.
	claims []*podClaim
	// names are what the claims and their requests are called.
	names func() string
	// special is the claim for extended resources as it has to be on these nodes. Nil if
	// there is none. It stands for the podClaim that is extended.
	special *resourceapi.ResourceClaim
	// mappings say which containers use which requests of the special claim.
	mappings []corev1.ContainerExtendedResourceRequest
	// err says why the claims cannot be allocated on any node. Then nothing else is set.
	err error
}

// namesOf are those of requests and, if there are several, of claims, as the pod calls them.
func namesOf(claims []*podClaim, objects []*resourceapi.ResourceClaim) string {
	var names []string
	for i, claim := range claims {
		if len(claims) > 1 {
			names = append(names, "claim", claim.name)
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

// compile makes a variant of the claims of a pod, with the special claim or without.
func (p *Plugin) compile(c *cycle, special *resourceapi.ResourceClaim, mappings []corev1.ContainerExtendedResourceRequest) *variant {
	v := &variant{special: special, mappings: mappings}
	var objects []*resourceapi.ResourceClaim
	for _, claim := range c.unallocated() {
		object := claim.object
		switch {
		case claim.pending != nil: // shared with another pod of the group
			continue
		case claim.extended && special == nil:
			continue
		case claim.extended:
			object = special
		}
		v.claims = append(v.claims, claim)
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		return v
	}
	problem, err := p.core.Compile(objects, p.dra.DeviceClasses())
	if err != nil {
		return &variant{err: err}
	}
	v.problem = problem
	v.names = sync.OnceValue(func() string { return namesOf(v.claims, objects) })
	return v
}
