package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// signedClaim is what of a claim decides on which nodes a pod can run.
type signedClaim struct {
	Name string
	Spec resourceapi.ResourceClaimSpec
}

// SignPod has the framework reuse what it found out about a pod for the next one like it.
// That is right if devices for one pod on a node change nothing on other nodes: the claims
// are the pod's own, not allocated, and every device there is belongs to one node. Without
// claims and extended resources the plugin does not care.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	extended := p.enabled() && p.features.EnableDRAExtendedResource && p.extends(pod)
	if !p.enabled() || len(pod.Spec.ResourceClaims) == 0 && !extended {
		return nil, nil
	}
	unsigned := func(why string) ([]fwk.SignFragment, *fwk.Status) {
		return nil, fwk.NewStatus(fwk.Unschedulable, why)
	}
	claims, err := p.resolve(pod)
	if err != nil {
		return unsigned(err.Error())
	}
	signed := make([]signedClaim, 0, len(claims))
	for i, claim := range claims {
		if pod.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil || len(claims) != len(pod.Spec.ResourceClaims) {
			return unsigned("claims that pods can share are not signed")
		}
		if claim.object.Status.Allocation != nil || p.dra.ResourceClaims().GetPendingAllocation(claim.object.UID) != nil {
			return unsigned("allocated claims are not signed")
		}
		signed = append(signed, signedClaim{Name: claim.name, Spec: claim.object.Spec})
	}
	if !p.nodeLocal() {
		return unsigned("there are devices that several nodes can reach")
	}
	// Extended resources are part of what the pod's containers request, which is signed.
	return []fwk.SignFragment{{Key: fwk.DynamicResourcesSignerName, Value: signed}}, nil
}

// nodeLocal reports whether each device belongs to one node.
func (p *Plugin) nodeLocal() bool {
	slices, err := p.dra.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return false
	}
	for _, slice := range slices {
		if ptr.Deref(slice.Spec.NodeName, "") == "" && len(slice.Spec.Devices) > 0 {
			return false
		}
	}
	return true
}
