package schedplugin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/ptr"
)

// unmadeClaimName is the name of the claim for extended resources until PreBind creates it.
// No claim in the API server can have it.
const unmadeClaimName = "<extended-resources>"

// extendedRequest is what a pod asks of extended resources.
type extendedRequest struct {
	// amounts has those above zero, by name.
	amounts map[corev1.ResourceName]int64
}

// extendedClaim returns the claim that stands for the extended resources of a pod which
// devices can serve, nil if there are none. It is the one that an earlier attempt left
// behind, or else one that does not exist yet.
func (p *Plugin) extendedClaim(pod *corev1.Pod, c *cycle) (*podClaim, error) {
	if !p.features.EnableDRAExtendedResource {
		return nil, nil
	}
	if !p.extends(pod) {
		return nil, nil
	}
	c.extended = &extendedRequest{amounts: extendedAmounts(pod)}
	list, err := p.dra.ResourceClaims().List()
	if err != nil {
		return nil, fmt.Errorf("list resource claims: %w", err)
	}
	object := leftBehind(pod, list)
	if object == nil {
		object = unmadeClaim(pod)
	}
	return &podClaim{object: object, extended: true, consumer: podConsumer(pod)}, nil
}

func extendedAmounts(pod *corev1.Pod) map[corev1.ResourceName]int64 {
	amounts := make(map[corev1.ResourceName]int64)
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name, amount := range framework.NewResource(requests).ScalarResources {
		if amount != 0 && schedutil.IsDRAExtendedResourceName(name) {
			amounts[name] = amount
		}
	}
	return amounts
}

// extends reports whether the pod asks for extended resources that devices can serve.
func (p *Plugin) extends(pod *corev1.Pod) bool {
	for name := range extendedAmounts(pod) {
		if p.servedByDevices(name) {
			return true
		}
	}
	return false
}

// servedByDevices reports whether a class offers devices under the name of the resource.
func (p *Plugin) servedByDevices(name corev1.ResourceName) bool {
	return p.dra.DeviceClassResolver().GetDeviceClass(name) != nil
}

func leftBehind(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for _, claim := range claims {
		owner := metav1.GetControllerOfNoCopy(claim)
		if owner == nil || owner.UID != pod.UID || owner.Name != pod.Name {
			continue
		}
		if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
			return claim
		}
	}
	return nil
}

func unmadeClaim(pod *corev1.Pod) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      unmadeClaimName,
			// Identifies it while it is in flight. The API server will choose another one.
			UID:          uuid.NewUUID(),
			GenerateName: pod.Name + "-extended-resources-",
			Annotations:  map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
			}},
		},
	}
}

// variantFor returns what has to be allocated on a node, or why the node cannot do.
func (p *Plugin) variantFor(c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (*variant, string) {
	if c.extended == nil {
		return c.plain, ""
	}
	special := c.claims[len(c.claims)-1]
	if !special.unmade() {
		// PostFilter deletes it. Whether it could be used is more than Filter can tell.
		return nil, "the claim for extended resources of an earlier attempt has to be deleted first"
	}
	names, missing := p.fromDevices(c.extended, nodeInfo)
	if missing != "" {
		return nil, fmt.Sprintf("the node does not have %s", missing)
	}
	if len(names) == 0 {
		return c.plain, ""
	}
	v := p.variantOf(c, pod, special, names)
	if v.err != nil {
		return nil, v.err.Error()
	}
	return v, ""
}

// fromDevices returns the resources that devices have to provide on a node, sorted, and one
// that neither devices nor a device plugin provide.
func (p *Plugin) fromDevices(asked *extendedRequest, nodeInfo fwk.NodeInfo) (names []string, missing string) {
	plugged := nodeInfo.GetAllocatable().GetScalarResources()
	for name := range asked.amounts {
		amount, listed := plugged[name]
		switch {
		case amount == 0 && p.servedByDevices(name):
			names = append(names, string(name))
		case !listed && (missing == "" || string(name) < missing):
			missing = string(name)
		}
	}
	slices.Sort(names)
	return names, missing
}

// variantOf returns the variant for nodes on which devices provide these resources.
func (p *Plugin) variantOf(c *cycle, pod *corev1.Pod, special *podClaim, names []string) *variant {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := strings.Join(names, " ")
	if known := c.variants[key]; known != nil {
		return known
	}
	object := *special.object
	requests, mappings := p.deviceRequests(pod, names)
	object.Spec.Devices.Requests = requests
	v := p.compile(c, &object, mappings)
	c.variants[key] = v
	return v
}
