// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/klog/v2"
)

// ReasonFailed is the reason of Events about claims that a driver did not prepare. It is kubelet's.
const ReasonFailed = "FailedPrepareDynamicResources"

// Options configure Start. All are required unless they say otherwise.
type Options struct {
	// KubeClient needs permission to get ResourceClaims, and with NodeName to list and delete
	// ResourceSlices.
	KubeClient kubernetes.Interface
	// NodeName is the node whose ResourceSlices are deleted when their driver cannot be reached for 30
	// seconds, as kubelet does. If it is empty, none are deleted.
	NodeName string
	// RegistrationDir is the folder where drivers make their registration sockets. Kubelet's is
	// /var/lib/kubelet/plugins_registry. It is created if it does not exist.
	RegistrationDir string
	// Checkpoint is the path of the checkpoint file, which must survive restarts. Its folder is
	// created.
	Checkpoint string
	// Recorder records Events of pods whose claims a driver does not prepare.
	Recorder record.EventRecorder
}

// Preparer prepares the claims of the pods on one node. Its methods may be called
// concurrently.
type Preparer struct {
	client   *draclient.Client
	recorder record.EventRecorder
	records  *records
	plugins  *plugins

	cancel     context.CancelFunc
	background sync.WaitGroup
	leftovers  chan struct{} // gets a value when claims may need to be unprepared
}

// Start reads the checkpoint and watches for drivers. The Preparer runs until Stop is called or ctx
// is done. If the checkpoint is damaged, the error is a *DamagedError. Claims may then be prepared
// without a record, and the caller decides whether to remove the file.
func Start(ctx context.Context, options Options) (*Preparer, error) {
	p, err := start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start to prepare claims: %w", err)
	}
	return p, nil
}

func start(ctx context.Context, options Options) (*Preparer, error) {
	for _, folder := range []string{options.RegistrationDir, filepath.Dir(options.Checkpoint)} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, err
		}
	}
	known, err := openRecords(options.Checkpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Preparer{
		client: draclient.New(options.KubeClient), recorder: options.Recorder,
		records: known, cancel: cancel, leftovers: make(chan struct{}, 1),
	}
	if p.plugins, err = watchPlugins(ctx, options.RegistrationDir); err != nil {
		cancel()
		return nil, err
	}
	p.background.Go(func() { p.unprepareLeftovers(ctx) })
	if options.NodeName != "" {
		p.plugins.recordAbsences()
		p.background.Go(func() { p.deleteStaleSlices(ctx, options.NodeName) })
	}
	return p, nil
}

// Stop stops the Preparer. Prepared claims remain so.
func (p *Preparer) Stop() {
	p.cancel()
	p.background.Wait()
	p.plugins.stop()
}

// Prepare makes one attempt to prepare the claims of a pod. It returns nil if they are prepared, or
// if there are none. Errors are
//   - a *NotReadyError if a claim is not allocated, not reserved for the pod, or not its own, or
//     if its devices are still prepared for another claim, or others for this one;
//   - one or several *DriverError if a driver is not registered or does not prepare a claim;
//     the pod then gets an Event;
//   - an error of the API server, of the checkpoint, or of ctx.
//
// Claims that drivers have prepared by then stay prepared until the pod is released.
func (p *Preparer) Prepare(ctx context.Context, pod *v1.Pod) error {
	return p.recorded(ctx, pod, p.prepare(ctx, pod))
}

// recorded returns err. The pod gets an Event if it is a driver's.
func (p *Preparer) recorded(ctx context.Context, pod *v1.Pod, err error) error {
	if driver := new(DriverError); errors.As(err, &driver) && ctx.Err() == nil {
		p.recorder.Event(pod, v1.EventTypeWarning, ReasonFailed, err.Error())
	}
	return err
}

func (p *Preparer) prepare(ctx context.Context, pod *v1.Pod) error {
	claims, err := Wanted(ctx, p.client, pod)
	if err != nil || len(claims) == 0 {
		return err
	}
	uids := make([]types.UID, len(claims))
	for i, claim := range claims {
		uids[i] = claim.UID
	}
	unlock, err := p.records.lock(ctx, uids)
	if err != nil {
		return err
	}
	defer unlock()
	known, err := p.claimFor(ctx, pod.UID, claims)
	if err != nil {
		return err
	}
	return p.haveDriversPrepare(ctx, known)
}

// haveDriversPrepare calls the drivers of claims that are not prepared. The caller has locked the claims.
func (p *Preparer) haveDriversPrepare(ctx context.Context, known []*claimRecord) error {
	if !slices.ContainsFunc(known, func(r *claimRecord) bool { return !r.prepared() }) {
		return nil
	}
	known, failed := p.perform(ctx, preparing, known)
	return errors.Join(failed, p.records.store(known...))
}

// prepareAgain is Prepare for the claims that an earlier process had prepared for a pod, and that were not released.
func (p *Preparer) prepareAgain(ctx context.Context, pod types.UID) error {
	uids := uidsOf(p.records.all(ofPod(pod)))
	unlock, err := p.records.lock(ctx, uids)
	if err != nil {
		return err
	}
	defer unlock()
	var known []*claimRecord
	for _, uid := range uids {
		if one := p.records.get(uid); one != nil && ofPod(pod)(one) {
			known = append(known, one)
		}
	}
	return p.haveDriversPrepare(ctx, known)
}

// claimFor stores that the pod uses the claims, before drivers are called. It stores nothing if a
// driver is not registered. Such a pod is often deleted without its claims, and nobody would be
// there to unprepare them.
func (p *Preparer) claimFor(ctx context.Context, pod types.UID, claims []*resourceapi.ResourceClaim) ([]*claimRecord, error) {
	var out []*claimRecord
	changed := false
	for _, claim := range claims {
		known := p.records.get(claim.UID)
		if known != nil && leftover(known) {
			// An earlier preparation may be for other devices.
			if err := p.unprepare(ctx, []*claimRecord{known}); err != nil {
				return nil, err
			}
			known = nil
		}
		allocated, reason := newRecord(claim), ""
		switch {
		case known == nil:
			known, reason = allocated, p.records.conflict(allocated)
		case !known.isOf(allocated):
			reason = "its earlier devices are still prepared for a pod that was deleted"
		}
		if reason != "" {
			return nil, &NotReadyError{klog.KObj(claim).String(), reason}
		}
		changed = changed || !slices.Contains(known.Pods, pod)
		out = append(out, known.with(pod))
	}
	var missing []error
	for _, known := range out {
		for _, name := range known.driverNames() {
			driver := known.Drivers[name]
			if _, err := p.plugins.client(name); err != nil && !driver.isReady() {
				missing = append(missing, &DriverError{name, known.Namespace + "/" + known.Name, err})
			}
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	if !changed {
		return out, nil
	}
	return out, p.records.store(out...)
}

// Release records that a pod no longer uses its claims, and unprepares those that no other pod
// uses. It is no error if there are none. If a driver fails to unprepare a claim, Release returns
// that error, and tries again in the background. After any other error, Release must be called
// again.
func (p *Preparer) Release(ctx context.Context, pod types.UID) error {
	for {
		uids := uidsOf(p.records.all(ofPod(pod)))
		if len(uids) == 0 {
			return nil
		}
		if err := p.release(ctx, pod, uids); err != nil {
			return fmt.Errorf("release claims of pod %s: %w", pod, err)
		}
	}
}

func (p *Preparer) release(ctx context.Context, pod types.UID, uids []types.UID) error {
	unlock, err := p.records.lock(ctx, uids)
	if err != nil {
		return err
	}
	defer unlock()
	var changed, unused []*claimRecord
	for _, uid := range uids {
		known := p.records.get(uid)
		if known == nil || !ofPod(pod)(known) {
			continue // another caller was faster
		}
		known = known.without(pod)
		changed = append(changed, known)
		if leftover(known) {
			unused = append(unused, known)
		}
	}
	if err := p.records.store(changed...); err != nil {
		return err
	}
	return p.unprepare(ctx, unused)
}

// unprepare has drivers unprepare claims that no pod uses. The caller has locked the claims.
func (p *Preparer) unprepare(ctx context.Context, known []*claimRecord) error {
	if len(known) == 0 {
		return nil
	}
	known, failed := p.perform(ctx, unpreparing, known)
	for i := range known {
		for name, driver := range known[i].Drivers {
			if driver.SkipUnprepare {
				known[i] = known[i].withDriver(name, nil)
			}
		}
	}
	err := errors.Join(failed, p.records.store(known...))
	if err != nil {
		select {
		case p.leftovers <- struct{}{}:
		default:
		}
	}
	return err
}

// ReleaseExcept releases all pods for which active returns false, and unprepares claims that
// earlier attempts left prepared. If it returns nil, all prepared claims are in use by active pods.
// Call it after a start, when all pods are known. It may also be called at any time, to release
// pods whose end was missed. active must return true for every pod that is being prepared or uses
// its claims. All pods are tried, and the errors are joined.
func (p *Preparer) ReleaseExcept(ctx context.Context, active func(pod types.UID) bool) error {
	var releases []func() error
	for _, pod := range p.Pods() {
		if !active(pod) {
			releases = append(releases, func() error { return p.Release(ctx, pod) })
		}
	}
	return errors.Join(together(releases), p.unprepareAll(ctx))
}

// together calls functions concurrently, so that one slow driver does not delay others. The errors
// are joined.
func together(all []func() error) error {
	failed := make([]error, len(all))
	var group sync.WaitGroup
	for i, each := range all {
		group.Go(func() { failed[i] = each() })
	}
	group.Wait()
	return errors.Join(failed...)
}

// Pods returns the pods that were prepared and not released, in any order.
func (p *Preparer) Pods() []types.UID {
	seen := make(map[types.UID]bool)
	for _, known := range p.records.all(func(*claimRecord) bool { return true }) {
		for _, pod := range known.Pods {
			seen[pod] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// unprepareLeftovers unprepares claims that an earlier process or attempt left prepared.
func (p *Preparer) unprepareLeftovers(ctx context.Context) {
	delay := firstRetry
	for {
		registered := p.plugins.registered()
		if err := p.unprepareAll(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("Claims that no pod uses are not unprepared yet", "reason", err)
			delay = min(2*delay, lastRetry)
		} else {
			delay = firstRetry
			select {
			case <-p.leftovers:
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-registered:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// unprepareAll makes one attempt for each claim that no pod uses.
func (p *Preparer) unprepareAll(ctx context.Context) error {
	var attempts []func() error
	for _, uid := range uidsOf(p.records.all(leftover)) {
		attempts = append(attempts, func() error { return p.unprepareOne(ctx, uid) })
	}
	return together(attempts)
}

func (p *Preparer) unprepareOne(ctx context.Context, uid types.UID) error {
	unlock, err := p.records.lock(ctx, []types.UID{uid})
	if err != nil {
		return err
	}
	defer unlock()
	known := p.records.get(uid)
	if known == nil || !leftover(known) {
		return nil // it was unprepared or is used again
	}
	return p.unprepare(ctx, []*claimRecord{known})
}
