package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight says whether PreBind has anything to do.
func (p *Plugin) PreBindPreFlight(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	if !p.enabled() {
		return result, fwk.NewStatus(fwk.Skip)
	}
	c, err := cycleOf(state)
	if err != nil {
		return result, failed(klog.FromContext(ctx), err)
	}
	if c.idle() {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes allocations and reservations to the API server, and waits for devices that
// have to get ready first. After a failure the framework calls Unreserve, and the pod is
// scheduled again.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if !p.enabled() {
		return nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName))
	c, err := cycleOf(state)
	if err != nil {
		return failed(logger, err)
	}
	if c.idle() {
		return nil
	}
	group, err := groupCycleOf(state)
	if err != nil {
		return failed(logger, err)
	}
	ctx = klog.NewContext(ctx, logger)
	for _, claim := range c.claims {
		if err := p.bind(ctx, c, claim, pod, nodeName); err != nil {
			return failed(logger, err, "resourceclaim", klog.KObj(claim.object))
		}
	}
	if err := p.awaitDevices(ctx, c, pod, nodeName); err != nil {
		return failed(logger, err)
	}
	p.land(c, group)
	return nil
}

// land ends the flight of what is in the API server now, for all pods that share it.
func (p *Plugin) land(c *cycle, group *groupCycle) {
	for _, claim := range c.claims {
		if claim.inFlight == "" {
			continue
		}
		if p.dra.ResourceClaims().MaybeRemoveClaimPendingAllocation(claim.inFlight, true) {
			group.landed(claim.inFlight)
		}
		claim.inFlight = ""
		p.model.Changed(claim.object, false)
	}
}

// bind records the allocation and the reservation of a claim, as far as they are not.
func (p *Plugin) bind(ctx context.Context, c *cycle, claim *podClaim, pod *corev1.Pod, nodeName string) error {
	if claim.unmade() && claim.pending == nil {
		return nil // a device plugin provides the extended resources
	}
	if p.reservedFor(pod, claim.object) {
		return nil
	}
	if claim.unmade() {
		if err := p.create(ctx, claim); err != nil {
			return err
		}
	}
	written, err := p.write(ctx, claim)
	if err != nil {
		return err
	}
	claim.object = written
	p.assume(ctx, claim)
	if claim.extended {
		return p.reportExtended(ctx, pod, claim.object.Name, c.suits(nodeName))
	}
	return nil
}

// assume has the scheduler see at once what was written, ahead of the informer.
func (p *Plugin) assume(ctx context.Context, claim *podClaim) {
	if claim.extended {
		p.assumeCreated(ctx, claim.object)
		return
	}
	defer p.model.Changed(claim.object, false)
	if err := p.dra.ResourceClaims().AssumeClaimAfterAPICall(claim.object); err != nil {
		// Somebody updated or deleted it meanwhile, and the scheduler knows already.
		klog.FromContext(ctx).V(5).Info("Claim not assumed", "resourceclaim", klog.KObj(claim.object), "err", err)
	}
}

// write updates the claim in the API server, again if somebody else does so at the same time.
func (p *Plugin) write(ctx context.Context, claim *podClaim) (*resourceapi.ResourceClaim, error) {
	latest := claim.object
	var written *resourceapi.ResourceClaim
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var err error
		if latest == nil {
			latest, err = p.client.ResourceV1().ResourceClaims(claim.object.Namespace).Get(ctx, claim.object.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get claim %s after a conflict: %w", klog.KObj(claim.object), err)
			}
			conflicts.Inc()
		}
		written, err = p.writeOnce(ctx, claim, latest)
		latest = nil
		return err
	})
	return written, err
}

// writeOnce takes two calls for an allocation and one for a reservation: the API server
// ignores finalizers in updates of the status.
func (p *Plugin) writeOnce(ctx context.Context, claim *podClaim, latest *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	updated, err := p.withReservation(claim, latest)
	if err != nil {
		return nil, err
	}
	if updated == nil {
		return latest, nil // another pod of the group wrote all of it
	}
	claims := p.client.ResourceV1().ResourceClaims(latest.Namespace)
	if claim.pending != nil && !slices.Contains(latest.Finalizers, resourceapi.Finalizer) {
		status := updated.Status
		updated.Status = latest.Status
		updated.Finalizers = append(slices.Clone(latest.Finalizers), resourceapi.Finalizer)
		if updated, err = claims.Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("claim %s: add finalizer: %w", klog.KObj(latest), err)
		}
		updated.Status = status
	}
	if updated, err = claims.UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("claim %s: update status: %w", klog.KObj(latest), err)
	}
	return updated, nil
}

// withReservation returns a copy of the claim as it has to be, nil if it is that already. It
// is an error if the claim is no longer what the pod was scheduled with.
func (p *Plugin) withReservation(claim *podClaim, latest *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	switch {
	case latest.UID != claim.object.UID:
		return nil, fmt.Errorf("claim %s was replaced by another one meanwhile", klog.KObj(latest))
	case latest.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s was deleted meanwhile", klog.KObj(latest))
	case latest.Status.Allocation == nil && claim.pending == nil:
		return nil, fmt.Errorf("claim %s was deallocated meanwhile", klog.KObj(latest))
	case latest.Status.Allocation != nil && !agrees(claim, latest.Status.Allocation):
		return nil, fmt.Errorf("claim %s was allocated elsewhere meanwhile", klog.KObj(latest))
	case latest.Status.Allocation != nil && reserved(latest, claim.consumer):
		return nil, nil
	}
	updated := latest.DeepCopy()
	if updated.Status.Allocation == nil {
		updated.Status.Allocation = claim.pending.DeepCopy()
		if p.bindingConditions() { // it cannot be added later
			updated.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
		}
	}
	if !reserved(updated, claim.consumer) {
		updated.Status.ReservedFor = append(updated.Status.ReservedFor, claim.consumer)
	}
	return updated, nil
}

// agrees reports whether the claim is allocated as the pod was scheduled with.
func agrees(claim *podClaim, allocation *resourceapi.AllocationResult) bool {
	expected := claim.object.Status.Allocation
	if expected == nil {
		expected = claim.pending
	}
	return equality.Semantic.DeepEqual(expected.Devices.Results, allocation.Devices.Results)
}

func reserved(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.UID == consumer.UID
	})
}

// awaitDevices waits until devices with binding conditions are ready.
func (p *Plugin) awaitDevices(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) error {
	if !p.bindingConditions() || !slices.ContainsFunc(c.claims, bindsConditionally) {
		return nil
	}
	p.handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(pod, nil, corev1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
		"waiting for binding conditions for device on node %s", nodeName)
	start := time.Now()
	err := p.poll(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errBindingTimeout, err)
	}
	p.measureBinding(c, err, time.Since(start))
	if err != nil {
		return fmt.Errorf("%w: %s", err, conditionsOf(c))
	}
	return nil
}
