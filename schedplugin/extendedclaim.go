package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// create makes the claim for extended resources in the API server. It has the finalizer from
// the start, which saves an update: without an allocation, the resource claim controller
// removes it again.
func (p *Plugin) create(ctx context.Context, claim *podClaim) error {
	object := claim.object.DeepCopy()
	object.Name, object.UID = "", ""
	object.Status = resourceapi.ResourceClaimStatus{}
	object.Finalizers = []string{resourceapi.Finalizer}
	created, err := p.client.ResourceV1().ResourceClaims(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
	status := "success"
	if err != nil {
		status = "failure"
	}
	schedmetrics.ResourceClaimCreatesTotal.WithLabelValues(status, "false", "", "Pod").Inc()
	if err != nil {
		return fmt.Errorf("create claim %s*: %w", object.GenerateName, err)
	}
	// From here on Unreserve deletes it.
	claim.object = created
	return nil
}

// How long to wait for a created claim to come back from the API server.
const assumeTimeout = 2 * time.Minute

var assumeBackoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Cap: time.Second, Steps: 1 << 20}

// assumeCreated assumes a claim that the informer may not have seen. Failing to is not the
// end: the claim was written.
func (p *Plugin) assumeCreated(ctx context.Context, claim *resourceapi.ResourceClaim) {
	logger := klog.FromContext(ctx)
	defer p.model.Changed(claim, false)
	ctx, cancel := context.WithTimeout(ctx, assumeTimeout)
	defer cancel()
	err := assumeBackoff.DelayFunc().Until(ctx, true, false, func(context.Context) (bool, error) {
		err := p.dra.ResourceClaims().AssumeClaimAfterAPICall(claim)
		if errors.Is(err, assumecache.ErrNotFound) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		logger.V(5).Info("Claim not assumed", "resourceclaim", klog.KObj(claim), "err", err)
	}
}

// reportExtended tells the kubelet, in the pod's status, which claim its containers use.
func (p *Plugin) reportExtended(ctx context.Context, pod *corev1.Pod, claimName string, suited *suitable) error {
	if suited == nil || len(suited.variant.mappings) == 0 {
		return fmt.Errorf("pod %s: no container uses claim %s for extended resources", klog.KObj(pod), claimName)
	}
	status := pod.Status.DeepCopy()
	status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		RequestMappings:   suited.variant.mappings,
		ResourceClaimName: claimName,
	}
	if err := schedutil.PatchPodStatus(ctx, p.client, pod.Name, pod.Namespace, &pod.Status, status); err != nil {
		return fmt.Errorf("pod %s: update extendedResourceClaimStatus: %w", klog.KObj(pod), err)
	}
	return nil
}

// unmake deletes the claim for extended resources if it was created: the next attempt may
// need a different one.
func (p *Plugin) unmake(ctx context.Context, claim *podClaim) {
	if claim.unmade() {
		return
	}
	if err := p.delete(ctx, claim.object); err != nil {
		klog.FromContext(ctx).Error(err, "Claim could not be deleted", "resourceclaim", klog.KObj(claim.object))
	}
}

// delete removes a claim of ours, with the finalizer that would keep it.
func (p *Plugin) delete(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	claims := p.client.ResourceV1().ResourceClaims(claim.Namespace)
	latest := claim
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var err error
		if latest == nil {
			if latest, err = claims.Get(ctx, claim.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		released := latest.DeepCopy()
		latest = nil
		released.Finalizers = slices.DeleteFunc(released.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		_, err = claims.Update(ctx, released, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = claims.Delete(ctx, claim.Name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("claim %s: delete: %w", klog.KObj(claim), err)
	}
	return nil
}
