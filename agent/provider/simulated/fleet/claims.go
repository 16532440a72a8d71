// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/claims"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/simulated"
)

// claimKeeper is a provider that plays kubelet and the drivers of all nodes. A pod starts when its
// claims are prepared: the node has the devices, and no other claim holds them. It reports the
// state of the devices in the claims' status.devices, until the pod has ended.
type claimKeeper struct {
	*simulated.Provider
	fleet  *Fleet
	client *draclient.Client
	queue  workqueue.TypedRateLimitingInterface[types.UID] // claims whose status must be written

	mu      sync.Mutex
	claims  map[types.UID]*preparedClaim
	pods    map[types.UID][]types.UID // claims by pod
	holders map[inventory.ID]types.UID
}

// preparedClaim is a claim that is prepared for pods of a node, or whose status must still be
// cleared.
type preparedClaim struct {
	claim *resourceapi.ResourceClaim // a reduced copy; it is not modified
	on    *member
	pods  map[types.UID]bool

	// reported is the part of status.devices that was last written, by driver. Only the worker that
	// has the claim accesses it.
	reported map[string][]resourceapi.AllocatedDeviceStatus
}

const (
	// reporters is the number of workers that write statuses of claims.
	reporters = 8
	// maxReports is how often writing a status is tried.
	maxReports = 10
)

func newClaimKeeper(f *Fleet, provider *simulated.Provider) *claimKeeper {
	return &claimKeeper{
		Provider: provider, fleet: f, client: draclient.New(f.options.Client),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry)),
		claims: make(map[types.UID]*preparedClaim), pods: make(map[types.UID][]types.UID), holders: make(map[inventory.ID]types.UID),
	}
}

// CreatePod prepares the claims of a pod, and then creates it.
func (k *claimKeeper) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	if err := k.prepare(ctx, pod); err != nil {
		return err
	}
	err := k.Provider.CreatePod(ctx, pod)
	if errdefs.IsInvalidInput(err) {
		k.release(pod.UID)
	}
	return err
}

// adopt prepares the claims of a pod that runs since an earlier run, and adopts the pod.
func (k *claimKeeper) adopt(ctx context.Context, pod *corev1.Pod) (begin func(), err error) {
	if err := k.prepare(ctx, pod); err != nil {
		return nil, err
	}
	return k.Adopt(pod)
}

// NotifyPods registers a function for reports. The claims of a pod are released before its end is
// reported.
func (k *claimKeeper) NotifyPods(ctx context.Context, cb func(*corev1.Pod)) {
	k.Provider.NotifyPods(ctx, func(pod *corev1.Pod) {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			k.release(pod.UID)
		}
		cb(pod)
	})
}

// prepare prepares all claims of a pod, or none. If a device is missing or held by another claim,
// it records an Event of the pod.
func (k *claimKeeper) prepare(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return nil
	}
	wanted, err := claims.Wanted(ctx, k.client, pod)
	if err != nil {
		return err
	}
	on := k.fleet.byName[pod.Spec.NodeName]
	in := on.inventory()
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := make(map[inventory.ID]types.UID)
	var failed []error
	for _, claim := range wanted {
		if err := k.take(claim, on, in, taken); err != nil {
			failed = append(failed, fmt.Errorf("claim %s: %w", klog.KObj(claim), err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		k.fleet.recorder.Event(pod, corev1.EventTypeWarning, claims.ReasonFailed, err.Error())
		return err
	}
	maps.Copy(k.holders, taken)
	for _, claim := range wanted {
		known := k.claims[claim.UID]
		if known == nil {
			known = &preparedClaim{on: on, pods: make(map[types.UID]bool), reported: make(map[string][]resourceapi.AllocatedDeviceStatus)}
			for _, driver := range on.kind.Drivers() {
				if devices := draplugin.Reported(driver, claim); len(devices) > 0 {
					known.reported[driver] = devices // written by an earlier run
				}
			}
			k.claims[claim.UID] = known
		}
		known.claim, known.pods[pod.UID] = reduced(claim), true
		if !slices.Contains(k.pods[pod.UID], claim.UID) {
			k.pods[pod.UID] = append(k.pods[pod.UID], claim.UID)
		}
		k.queue.Add(claim.UID)
	}
	return nil
}

// reduced returns a copy of a claim with the fields that are needed later.
func reduced(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Status:     resourceapi.ResourceClaimStatus{Allocation: claim.Status.Allocation},
	}
}

// take adds the exclusive devices of a claim to taken. It returns an error if the node lacks a
// device, or another claim holds it. The caller holds the lock.
func (k *claimKeeper) take(claim *resourceapi.ResourceClaim, on *member, in *inventory.Inventory, taken map[inventory.ID]types.UID) error {
	drivers := on.kind.Drivers()
	for _, result := range claim.Status.Allocation.Devices.Results {
		if !slices.Contains(drivers, result.Driver) {
			continue // not simulated on this node, for instance a network device
		}
		id := inventory.ID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		device := in.Device(id)
		switch {
		case device == nil && k.holders[id] == claim.UID: // the device disappeared while the claim holds it
			continue
		case device == nil:
			return fmt.Errorf("device %s: node %s does not have it", id, on.name)
		case device.Shares > 1 || ptr.Deref(result.AdminAccess, false):
			continue
		}
		for _, holders := range []map[inventory.ID]types.UID{k.holders, taken} {
			if holder, ok := holders[id]; ok && holder != claim.UID {
				return fmt.Errorf("device %s: another claim has it: %s", id, k.nameOf(holder))
			}
		}
		taken[id] = claim.UID
	}
	return nil
}

func (k *claimKeeper) nameOf(claim types.UID) string {
	if known := k.claims[claim]; known != nil {
		return klog.KObj(known.claim).String()
	}
	return string(claim)
}

// release releases the claims of a pod, except those that other pods use. It may be called again.
func (k *claimKeeper) release(pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, uid := range k.pods[pod] {
		known := k.claims[uid]
		delete(known.pods, pod)
		if len(known.pods) > 0 {
			continue
		}
		for _, result := range known.claim.Status.Allocation.Devices.Results {
			if id := (inventory.ID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}); k.holders[id] == uid {
				delete(k.holders, id)
			}
		}
		k.queue.Add(uid)
	}
	delete(k.pods, pod)
}

// devicesChanged queues the claims of a node, because its devices changed.
func (k *claimKeeper) devicesChanged(on *member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, known := range k.claims {
		if known.on == on {
			k.queue.Add(uid)
		}
	}
}

// report runs the workers that write statuses, until the queue is shut down.
func (k *claimKeeper) report(ctx context.Context) {
	var workers sync.WaitGroup
	for range reporters {
		workers.Go(func() {
			for {
				uid, over := k.queue.Get()
				if over {
					return
				}
				k.handle(ctx, uid)
				k.queue.Done(uid)
			}
		})
	}
	workers.Wait()
}

func (k *claimKeeper) handle(ctx context.Context, uid types.UID) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := k.reportOne(limited, uid)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		k.queue.Forget(uid)
	case isFinal(err) || k.queue.NumRequeues(uid) >= maxReports:
		klog.FromContext(ctx).Error(err, "status.devices of a claim is not written", "claim", uid)
		k.queue.Forget(uid)
	default:
		k.queue.AddRateLimited(uid)
	}
}

// reportOne writes the state of a claim's devices to its status. If no pod uses the claim, it
// clears the status.
func (k *claimKeeper) reportOne(ctx context.Context, uid types.UID) error {
	k.mu.Lock()
	known := k.claims[uid]
	if known == nil {
		k.mu.Unlock()
		return nil
	}
	claim, on, used := known.claim, known.on, len(known.pods) > 0
	k.mu.Unlock()
	if used && on.isSilent() {
		return nil // the node is silent; the claim is queued again when it no longer is
	}
	in := on.inventory()
	want := make(map[string][]resourceapi.AllocatedDeviceStatus)
	if used {
		for _, driver := range on.kind.Drivers() {
			if devices := draplugin.ReportOf(driver, claim, in, nil, known.reported[driver]); len(devices) > 0 {
				want[driver] = devices
			}
		}
	}
	drivers := maps.Clone(want)
	maps.Copy(drivers, known.reported)
	for driver := range drivers {
		if err := k.write(ctx, known, claim, driver, want[driver]); err != nil {
			return err
		}
	}
	if !used {
		k.forget(uid)
	}
	return nil
}

// write applies one driver's part of status.devices, if it has changed. It is no error if the claim
// was deleted.
func (k *claimKeeper) write(ctx context.Context, known *preparedClaim, claim *resourceapi.ResourceClaim, driver string, devices []resourceapi.AllocatedDeviceStatus) error {
	if equality.Semantic.DeepEqual(devices, known.reported[driver]) {
		return nil
	}
	_, err := k.fleet.options.Client.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, draplugin.ApplyReport(claim, devices),
		metav1.ApplyOptions{FieldManager: driver, Force: true})
	if err != nil && !apierrors.IsNotFound(err) && (len(devices) > 0 || !apierrors.IsConflict(err)) {
		return fmt.Errorf("claim %s: %w", klog.KObj(claim), err)
	}
	known.reported[driver] = devices
	if len(devices) == 0 {
		delete(known.reported, driver)
	}
	return nil
}

// forget drops a claim whose status was cleared, unless a pod uses it again.
func (k *claimKeeper) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.claims[uid].pods) == 0 {
		delete(k.claims, uid)
	}
}
