// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracker provides ResourceSlices with the taints that DeviceTaintRules add to their
// devices. It offers the names, signatures and meaning of
// k8s.io/dynamic-resource-allocation/resourceslice/tracker v0.37.
//
//	informer of ResourceSlices ────┐
//	                               ├─► event: what is in both informers now ─► slice with taints ─► handlers
//	informer of DeviceTaintRules ──┘
//
// An event only says which slices to compute again. The result comes from the current contents of
// both informers' caches, and is compared with the previous result. So the order of events of
// slices and rules does not matter. Nor does it matter that a cache has a change before its event
// is delivered.
package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Options configure StartTracker.
type Options struct {
	// EnableDeviceTaintRules enables the rules. If it is false, slices are provided unchanged, and
	// TaintInformer is not needed.
	EnableDeviceTaintRules bool
	// EnableConsumableCapacity exists for compatibility. It has no effect, as in upstream: rules
	// select devices by name, not by expression.
	EnableConsumableCapacity bool

	SliceInformer resourceinformers.TypedResourceSliceInformer
	TaintInformer resourceinformers.TypedDeviceTaintRuleInformer

	// KubeClient exists for compatibility, and has no effect.
	KubeClient kubernetes.Interface
}

// Tracker provides slices with the taints of rules. Its methods may be called concurrently. Callers
// must not modify the results.
type Tracker struct {
	options  Options
	handles  []cache.ResourceEventHandlerRegistration // of the tracker's handlers at the informers
	removers []func() error
	synced   chan struct{} // closed when the informers' initial objects were handled
	cancel   context.CancelCauseFunc
	waiting  sync.WaitGroup

	mutex    sync.Mutex
	shown    map[string]*resourceapi.ResourceSlice
	handlers []cache.ResourceEventHandler
	events   []func() // not yet delivered, in order

	delivering sync.Mutex // held while handlers run, to keep the order of events
}

// StartTracker returns a tracker of informers, which the caller starts. It runs until Stop is
// called. If ctx is done before it has synced, it may never sync.
func StartTracker(ctx context.Context, opts Options) (*Tracker, error) {
	t := &Tracker{options: opts, synced: make(chan struct{}), shown: make(map[string]*resourceapi.ResourceSlice), cancel: func(error) {}}
	if !opts.EnableDeviceTaintRules {
		return t, nil
	}
	logger := klog.FromContext(ctx)
	if err := t.follow(logger, opts.SliceInformer.Informer(), t.sliceChanged); err != nil {
		return nil, fmt.Errorf("start tracker: follow ResourceSlices: %w", err)
	}
	if err := t.follow(logger, opts.TaintInformer.Informer(), t.ruleChanged); err != nil {
		t.Stop()
		return nil, fmt.Errorf("start tracker: follow DeviceTaintRules: %w", err)
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	t.waiting.Go(func() {
		for _, handle := range t.handles {
			select {
			case <-handle.HasSyncedChecker().Done():
			case <-ctx.Done():
				return
			}
		}
		close(t.synced)
	})
	return t, nil
}

// follow calls changed with the old and the new object of each event. One of them may be nil.
func (t *Tracker) follow(logger klog.Logger, informer cache.SharedIndexInformer, changed func(before, after any)) error {
	handle, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, object) },
		UpdateFunc: changed,
		DeleteFunc: func(object any) { changed(object, nil) },
	}, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return err
	}
	t.handles = append(t.handles, handle)
	t.removers = append(t.removers, func() error { return informer.RemoveEventHandler(handle) })
	return nil
}

// Stop stops the tracker. No handler is called afterwards.
func (t *Tracker) Stop() {
	t.cancel(errors.New("tracker: stopped"))
	t.waiting.Wait()
	for _, remove := range t.removers {
		if err := remove(); err != nil {
			utilruntime.HandleError(fmt.Errorf("stop tracker: %w", err))
		}
	}
}

// HasSynced tells whether all initial objects of the informers were handled.
func (t *Tracker) HasSynced() bool {
	select {
	case <-t.HasSyncedChecker().Done():
		return true
	default:
		return false
	}
}

// HasSyncedChecker returns a checker to wait for HasSynced.
func (t *Tracker) HasSyncedChecker() cache.DoneChecker {
	if !t.options.EnableDeviceTaintRules {
		return t.options.SliceInformer.Informer().HasSyncedChecker()
	}
	return checker{t}
}

type checker struct{ *Tracker }

func (c checker) Name() string          { return "ResourceSlices with taints" }
func (c checker) Done() <-chan struct{} { return c.synced }

// ListPatchedResourceSlices returns all slices, with the taints of rules.
func (t *Tracker) ListPatchedResourceSlices() ([]*resourceapi.ResourceSlice, error) {
	if !t.options.EnableDeviceTaintRules {
		return t.options.SliceInformer.Lister().List(labels.Everything())
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	out := make([]*resourceapi.ResourceSlice, 0, len(t.shown))
	for _, slice := range t.shown {
		out = append(out, slice)
	}
	return out, nil
}

// AddEventHandler adds a handler. It is called for all current slices before AddEventHandler
// returns, and then for each change. Calls do not overlap. A handler may list slices, but must not
// add handlers.
func (t *Tracker) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	if !t.options.EnableDeviceTaintRules {
		return t.options.SliceInformer.Informer().AddEventHandler(handler)
	}
	t.mutex.Lock()
	t.handlers = append(t.handlers, handler)
	for _, slice := range t.shown {
		t.events = append(t.events, func() { handler.OnAdd(slice, true) })
	}
	t.mutex.Unlock()
	t.deliver()
	return t, nil
}

func (t *Tracker) sliceChanged(before, after any) {
	object := after
	if object == nil {
		object = before
	}
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		t.update(unknown.Key)
		return
	}
	if slice, ok := object.(*resourceapi.ResourceSlice); ok {
		t.update(slice.Name)
	}
}

// ruleChanged updates the slices that the old or the new rule selects.
func (t *Tracker) ruleChanged(before, after any) {
	if unknown, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = unknown.Obj
	}
	var rules []*resourceapi.DeviceTaintRule
	for _, object := range []any{before, after} {
		if rule, ok := object.(*resourceapi.DeviceTaintRule); ok && rule != nil {
			rules = append(rules, rule)
		}
	}
	stored, err := t.options.SliceInformer.Lister().List(labels.Everything())
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("tracker: list ResourceSlices: %w", err))
		return
	}
	var names []string
	for _, slice := range stored {
		if slices.ContainsFunc(rules, func(rule *resourceapi.DeviceTaintRule) bool { return selects(rule, slice) }) {
			names = append(names, slice.Name)
		}
	}
	t.update(names...)
}

// update computes slices again, and queues events for the handlers.
func (t *Tracker) update(names ...string) {
	t.mutex.Lock()
	for _, name := range names {
		t.updateOne(name)
	}
	t.mutex.Unlock()
	t.deliver()
}

// updateOne computes one slice again. The caller holds the mutex.
func (t *Tracker) updateOne(name string) {
	before := t.shown[name]
	stored, exists, err := t.options.SliceInformer.Informer().GetIndexer().GetByKey(name)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("tracker: ResourceSlice %s: %w", name, err))
		return
	}
	slice, ok := stored.(*resourceapi.ResourceSlice)
	if !exists || !ok {
		if before != nil {
			delete(t.shown, name)
			t.enqueue(func(handler cache.ResourceEventHandler) { handler.OnDelete(before) })
		}
		return
	}
	now := t.withTaints(slice)
	if before != nil && before.UID == now.UID && before.ResourceVersion == now.ResourceVersion && sameTaints(before, now) {
		return
	}
	t.shown[name] = now
	if before == nil {
		t.enqueue(func(handler cache.ResourceEventHandler) { handler.OnAdd(now, false) })
	} else {
		t.enqueue(func(handler cache.ResourceEventHandler) { handler.OnUpdate(before, now) })
	}
}

func (t *Tracker) enqueue(event func(cache.ResourceEventHandler)) {
	for _, handler := range t.handlers {
		t.events = append(t.events, func() { event(handler) })
	}
}

// deliver calls the handlers with queued events. If a handler panics, the other handlers are still
// called.
func (t *Tracker) deliver() {
	for {
		t.delivering.Lock()
		t.mutex.Lock()
		events := t.events
		t.events = nil
		t.mutex.Unlock()
		for _, event := range events {
			func() {
				defer utilruntime.HandleCrash()
				event()
			}()
		}
		t.delivering.Unlock()
		if len(events) == 0 {
			return
		}
	}
}

// withTaints returns the slice with the taints of rules. It returns the slice itself if no rule
// selects one of its devices.
func (t *Tracker) withTaints(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	out := slice
	for _, rule := range t.rules() {
		if !selects(rule, slice) {
			continue
		}
		for i := range slice.Spec.Devices {
			if device := rule.Spec.DeviceSelector.Device; device != nil && *device != slice.Spec.Devices[i].Name {
				continue
			}
			if out == slice {
				out = slice.DeepCopy()
			}
			out.Spec.Devices[i].Taints = append(out.Spec.Devices[i].Taints, rule.Spec.Taint)
		}
	}
	return out
}

// rules returns the rules sorted by name, so that the order of taints is deterministic.
func (t *Tracker) rules() []*resourceapi.DeviceTaintRule {
	var out []*resourceapi.DeviceTaintRule
	for _, object := range t.options.TaintInformer.Informer().GetIndexer().List() {
		if rule, ok := object.(*resourceapi.DeviceTaintRule); ok {
			out = append(out, rule)
		}
	}
	slices.SortFunc(out, func(a, b *resourceapi.DeviceTaintRule) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// selects tells whether a rule may select devices of a slice. A rule without a selector selects no
// device.
func selects(rule *resourceapi.DeviceTaintRule, slice *resourceapi.ResourceSlice) bool {
	selector := rule.Spec.DeviceSelector
	return selector != nil &&
		(selector.Driver == nil || *selector.Driver == slice.Spec.Driver) &&
		(selector.Pool == nil || *selector.Pool == slice.Spec.Pool.Name)
}

// sameTaints compares the taints of two results for the same version of a slice.
func sameTaints(a, b *resourceapi.ResourceSlice) bool {
	return slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(x, y resourceapi.Device) bool {
		return slices.EqualFunc(x.Taints, y.Taints, func(x, y resourceapi.DeviceTaint) bool {
			return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect && x.TimeAdded.Equal(y.TimeAdded)
		})
	})
}
