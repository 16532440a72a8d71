// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Follower has the objects of a cluster that dray uses, and follows changes by watches. It is safe
// for concurrent use.
type Follower struct {
	changed   chan struct{}
	informers []cache.SharedIndexInformer
	running   sync.WaitGroup
	notes     []error

	lock   sync.Mutex
	broken map[string]error // by resource
}

// ofKind has an empty object per resource name.
var ofKind = map[string]runtime.Object{
	"nodes": &corev1.Node{}, "pods": &corev1.Pod{}, "deviceclasses": &resourceapi.DeviceClass{}, "resourceslices": &resourceapi.ResourceSlice{},
	"resourceclaims": &resourceapi.ResourceClaim{}, "resourceclaimtemplates": &resourceapi.ResourceClaimTemplate{},
	"devicetaintrules": &resourceapi.DeviceTaintRule{}, "podgroups": &schedulingapi.PodGroup{},
}

// Follow follows a cluster until the context is done. It returns when all objects have been listed.
// Resources that the user may not list are left out, with a note. If the user may list pods and
// claims only in one namespace, only these are followed.
func Follow(ctx context.Context, client kubernetes.Interface, namespace string, step func()) (*Follower, error) {
	f := &Follower{changed: make(chan struct{}, 1), broken: make(map[string]error)}
	for _, l := range lists(client, namespace) {
		from, err := f.permitted(ctx, l, namespace)
		if err != nil {
			return nil, err
		}
		if from.page == nil {
			continue
		}
		step()
		if err := f.start(ctx, l.resource, from); err != nil {
			return nil, err
		}
	}
	for _, informer := range f.informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, errors.Join(context.Cause(ctx), f.Broken())
		}
	}
	return f, nil
}

// permitted returns how the user may list a resource. The result is empty if it is not permitted.
func (f *Follower) permitted(ctx context.Context, l list, namespace string) (lister, error) {
	one := metav1.ListOptions{Limit: 1}
	_, err := l.all.page(ctx, one)
	switch {
	case err == nil:
		return l.all, nil
	case l.earlier.page != nil && apierrors.IsNotFound(err):
		return f.permitted(ctx, list{resource: l.resource, all: l.earlier, optional: l.optional}, namespace)
	case l.optional && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)):
		return lister{}, nil
	case !apierrors.IsForbidden(err):
		return lister{}, notListed(l.resource, err)
	}
	if l.inNamespace.page != nil {
		if _, err = l.inNamespace.page(ctx, one); err == nil {
			f.notes = append(f.notes, inNamespaceOnly(l.resource, namespace))
			return l.inNamespace, nil
		}
		if !apierrors.IsForbidden(err) {
			return lister{}, notListed(l.resource, err)
		}
	}
	f.notes = append(f.notes, fmt.Errorf("list %s: not permitted: they are left out", l.resource))
	return lister{}, nil
}

func (f *Follower) start(ctx context.Context, resource string, from lister) error {
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			objects, err := from.page(ctx, options)
			if err != nil {
				f.setError(resource, err)
			}
			return objects, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := from.watch(ctx, options)
			f.setError(resource, err)
			return events, err
		},
	}
	kind := ofKind[resource]
	if from.kind != nil {
		kind = from.kind
	}
	informer := cache.NewSharedIndexInformer(listWatch, kind, 0, cache.Indexers{})
	err := informer.SetTransform(func(object any) (any, error) {
		if one, isObject := object.(runtime.Object); isObject {
			current, err := asCurrent(one)
			if err != nil {
				return nil, err
			}
			object = current
		}
		if accessor, err := meta.Accessor(object); err == nil {
			accessor.SetManagedFields(nil)
		}
		return object, nil
	})
	if err != nil {
		return err
	}
	wake := func() {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	}); err != nil {
		return err
	}
	f.informers = append(f.informers, informer)
	f.running.Go(func() { informer.RunWithContext(ctx) })
	return nil
}

// setError records the error of a resource, or its end if err is nil.
func (f *Follower) setError(resource string, err error) {
	f.lock.Lock()
	before := f.broken[resource]
	if err == nil {
		delete(f.broken, resource)
	} else if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) && !errors.Is(err, context.Canceled) {
		f.broken[resource] = err
	}
	differs := textOf(before) != textOf(f.broken[resource])
	f.lock.Unlock()
	if differs {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Changed returns a channel that gets a value when objects, or the result of Broken, have changed.
func (f *Follower) Changed() <-chan struct{} { return f.changed }

// Broken returns the errors of resources that cannot be followed, or nil.
func (f *Follower) Broken() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	var names []string
	for resource := range f.broken {
		names = append(names, resource)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s: %w", strings.Join(names, ", "), f.broken[names[0]])
}

// Wait returns when all watches have ended, after the context is done.
func (f *Follower) Wait() { f.running.Wait() }

// Objects returns the current objects, sorted by name. They are shared and must not be modified.
func (f *Follower) Objects() (*Objects, error) {
	objects := NewObjects()
	for _, note := range f.notes {
		objects.Warnings = append(objects.Warnings, fmt.Errorf("cluster: %w", note))
	}
	for _, informer := range f.informers {
		all := informer.GetStore().List()
		slices.SortFunc(all, func(a, b any) int { return compareNames(a, b) })
		for _, one := range all {
			object, isObject := one.(runtime.Object)
			if !isObject {
				continue
			}
			if err := objects.add(object, Origin{File: "cluster"}); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

func compareNames(a, b any) int {
	x, errX := meta.Accessor(a)
	y, errY := meta.Accessor(b)
	if errX != nil || errY != nil {
		return 0
	}
	return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
}
