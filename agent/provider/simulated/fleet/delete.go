// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"
)

// Deleted counts the objects that Delete deleted.
type Deleted struct{ Nodes, Leases, Slices, Pods int }

// ErrRunning says that the fleet is still running, and would create its nodes again.
var ErrRunning = errors.New("the fleet runs: stop it first")

// pollInterval is the pause before Delete checks again what remains.
const pollInterval = 500 * time.Millisecond

// deletion is the deletion of one fleet.
type deletion struct {
	client   kubernetes.Interface
	name     string
	selector metav1.ListOptions
	nodes    map[string]bool // names of nodes that belong or belonged to the fleet
	deleted  map[types.UID]bool
	count    Deleted
}

// Delete deletes what fleets of this name left: nodes, leases and ResourceSlices with the label
// LabelFleet and this value. It also deletes all pods that are bound to these nodes, with a grace
// period of 0, since no kubelet ends them. It ignores PodDisruptionBudgets. ResourceClaims are left
// to Kubernetes' controllers: they delete those generated for these pods, and deallocate the
// others.
//
// Delete returns when everything is gone, or ctx ends. The error then says what remains. It is
// ErrRunning if a lease of the fleet is renewed while Delete waits.
func Delete(ctx context.Context, client kubernetes.Interface, name string) (Deleted, error) {
	if name == "" {
		name = DefaultName
	}
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
		return Deleted{}, fmt.Errorf("fleet %q: %s", name, strings.Join(problems, "; "))
	}
	d := &deletion{
		client: client, name: name, selector: metav1.ListOptions{LabelSelector: LabelFleet + "=" + name},
		nodes: make(map[string]bool), deleted: make(map[types.UID]bool),
	}
	if err := d.run(ctx); err != nil {
		return d.count, fmt.Errorf("delete fleet %s: %w", name, err)
	}
	return d.count, nil
}

func (d *deletion) run(ctx context.Context) error {
	if err := d.awaitEnd(ctx); err != nil {
		return err
	}
	var last error // what remained in the last round
	for {
		left, err := d.once(ctx)
		switch {
		case err == nil && len(left) == 0:
			return nil
		case err == nil:
			last = fmt.Errorf("left: %s", some(left))
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(pollInterval):
		}
	}
}

// some lists the first few objects.
func some(of []found) string {
	const most = 5
	var names []string
	for _, one := range of[:min(len(of), most)] {
		names = append(names, one.String())
	}
	text := strings.Join(names, ", ")
	if len(of) > most {
		text += fmt.Sprintf(" and %d more", len(of)-most)
	}
	return text
}

// awaitEnd waits until all leases that were renewed recently are due again, to see whether the
// fleet still runs. After the end of a fleet, that takes up to a quarter of the lease's duration.
func (d *deletion) awaitEnd(ctx context.Context) error {
	before, err := d.renewals(ctx)
	if err != nil {
		return err
	}
	var wait time.Duration
	for _, lease := range before {
		interval := time.Duration(ptr.Deref(lease.LeaseDurationSeconds, 0))*time.Second/4 + time.Second
		if due := time.Until(lease.RenewTime.Add(interval)); due <= interval {
			wait = max(wait, due)
		}
	}
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
	}
	after, err := d.renewals(ctx)
	if err != nil {
		return err
	}
	for node, lease := range after {
		if old, ok := before[node]; !ok || old.RenewTime.Before(lease.RenewTime) {
			return fmt.Errorf("%w: the lease of node %s was renewed", ErrRunning, node)
		}
	}
	return nil
}

// renewals returns the leases that were ever renewed, by node.
func (d *deletion) renewals(ctx context.Context) (map[string]coordinationv1.LeaseSpec, error) {
	foreign, err := d.foreignNodes(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]coordinationv1.LeaseSpec)
	err = pager.New(d.leases).EachListItem(ctx, d.selector, func(object runtime.Object) error {
		if lease := object.(*coordinationv1.Lease); lease.Spec.RenewTime != nil && !foreign[lease.Name] {
			out[lease.Name] = lease.Spec
		}
		return nil
	})
	return out, err
}

func (d *deletion) leases(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return d.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, options)
}

func (d *deletion) allNodes(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return d.client.CoreV1().Nodes().List(ctx, options)
}

// foreignNodes returns the names of nodes outside the fleet. Such a node may have the name, and the
// lease, of a former node of the fleet.
func (d *deletion) foreignNodes(ctx context.Context) (map[string]bool, error) {
	out := make(map[string]bool)
	err := pager.New(d.allNodes).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if node := object.(*corev1.Node); node.Labels[LabelFleet] != d.name {
			out[node.Name] = true
		}
		return nil
	})
	return out, err
}

// kind says how objects of one kind are listed and deleted.
type kind struct {
	name    string
	list    pager.ListPageFunc
	options metav1.ListOptions
	isOurs  func(metav1.Object) bool
	delete  func(context.Context, metav1.Object, metav1.DeleteOptions) error
	count   *int
}

// kinds returns the kinds to delete. Nodes come first, so that no more pods are bound to them.
func (d *deletion) kinds(foreign map[string]bool) []kind {
	nodes, leases, slices := d.client.CoreV1().Nodes(), d.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), d.client.ResourceV1().ResourceSlices()
	bound := metav1.ListOptions{FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", "").String()}
	// note adds the name of a node to d.nodes, and returns true, unless the node is foreign.
	note := func(node string) bool {
		if !foreign[node] {
			d.nodes[node] = true
		}
		return !foreign[node]
	}
	return []kind{
		{
			"node", d.allNodes, d.selector,
			func(object metav1.Object) bool { return note(object.GetName()) },
			func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
				return nodes.Delete(ctx, object.GetName(), options)
			}, &d.count.Nodes,
		},
		{
			"lease", d.leases, d.selector,
			func(object metav1.Object) bool { return note(object.GetName()) },
			func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
				return leases.Delete(ctx, object.GetName(), options)
			}, &d.count.Leases,
		},
		{
			"ResourceSlice", func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return slices.List(ctx, options)
			}, d.selector,
			func(object metav1.Object) bool {
				note(ptr.Deref(object.(*resourceapi.ResourceSlice).Spec.NodeName, ""))
				return true
			},
			func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
				return slices.Delete(ctx, object.GetName(), options)
			}, &d.count.Slices,
		},
		{
			"pod", func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
			}, bound,
			func(object metav1.Object) bool { return d.nodes[object.(*corev1.Pod).Spec.NodeName] },
			func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
				options.GracePeriodSeconds = ptr.To[int64](0)
				return d.client.CoreV1().Pods(object.GetNamespace()).Delete(ctx, object.GetName(), options)
			}, &d.count.Pods,
		},
	}
}

// once deletes all objects that it finds, and returns them. Some may not be gone yet.
func (d *deletion) once(ctx context.Context) (all []found, err error) {
	foreign, err := d.foreignNodes(ctx)
	if err != nil {
		return nil, err
	}
	kinds := d.kinds(foreign)
	for i := range kinds {
		kind := &kinds[i]
		err := pager.New(kind.list).EachListItem(ctx, kind.options, func(item runtime.Object) error {
			object := item.(metav1.Object)
			if !kind.isOurs(object) {
				return nil
			}
			all = append(all, found{kind, object})
			if !d.deleted[object.GetUID()] {
				d.deleted[object.GetUID()] = true
				*kind.count++
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.name, err)
		}
	}
	for i := range kinds {
		var group errgroup.Group
		group.SetLimit(concurrently)
		for _, one := range all {
			if one.kind == &kinds[i] {
				group.Go(func() error { return one.delete(ctx) })
			}
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// found is an object that is to be deleted.
type found struct {
	kind   *kind
	object metav1.Object
}

// delete deletes the object with this UID. It is no error if it is gone.
func (f found) delete(ctx context.Context) error {
	uid := f.object.GetUID()
	err := f.kind.delete(ctx, f.object, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", f, err)
}

func (f found) String() string {
	name := f.object.GetName()
	if namespace := f.object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	text := f.kind.name + " " + name
	if finalizers := f.object.GetFinalizers(); len(finalizers) > 0 {
		text += " (waits for the finalizers " + strings.Join(finalizers, ", ") + ")"
	}
	return text
}
