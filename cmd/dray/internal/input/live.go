// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// Live lists the objects that dray uses from a cluster that serves resource.k8s.io/v1, page by
// page. step is called with the name of each resource before it is listed, and may be nil. Objects
// are not validated, since the API server has accepted them.
//
// If the user may list pods and claims only in one namespace, there is a warning.
func Live(ctx context.Context, client kubernetes.Interface, namespace string, step func(resource string)) (*Objects, error) {
	r := newReader(Options{})
	for _, l := range lists(client, namespace) {
		if step != nil {
			step(l.resource)
		}
		err := r.list(ctx, l.all.page)
		if l.earlier.page != nil && apierrors.IsNotFound(err) {
			err = r.list(ctx, l.earlier.page)
		}
		if l.inNamespace.page != nil && apierrors.IsForbidden(err) {
			r.warn(Origin{File: "cluster"}, inNamespaceOnly(l.resource, namespace))
			err = r.list(ctx, l.inNamespace.page)
		}
		if l.optional && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) {
			continue
		}
		if err != nil {
			return nil, notListed(l.resource, err)
		}
	}
	return r.result()
}

// notListed returns the error about a resource that cannot be listed.
func notListed(resource string, err error) error {
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: the cluster does not serve resource.k8s.io/v1, as Kubernetes 1.34 and later do: what kubectl gets as YAML of earlier versions can be read with -f", err)
	}
	return fmt.Errorf("list %s: %w", resource, err)
}

func inNamespaceOnly(resource, namespace string) error {
	return fmt.Errorf("list %s: not permitted in all namespaces: those of namespace %s are looked at, and what others hold of devices is not known", resource, namespace)
}

// list has the functions that list one resource.
type list struct {
	resource string
	all      lister
	// inNamespace lists one namespace, for users without cluster-wide permission. It is empty for
	// cluster-scoped resources.
	inNamespace lister
	// earlier lists an earlier version, which older clusters serve instead. Its objects are converted.
	earlier lister
	// optional says that the cluster may lack the resource, or the user the permission.
	optional bool
}

// lister lists and watches one resource.
type lister struct {
	page  pager.ListPageFunc
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// kind is an empty object, if it is of an earlier version.
	kind runtime.Object
}

func lists(client kubernetes.Interface, namespace string) []list {
	core, devices, groups := client.CoreV1(), client.ResourceV1(), client.SchedulingV1beta1()
	earlierRules := listerOf(client.ResourceV1beta2().DeviceTaintRules())
	earlierRules.kind = &resourcev1beta2.DeviceTaintRule{}
	return []list{
		{resource: "nodes", all: listerOf(core.Nodes())},
		{resource: "pods", all: listerOf(core.Pods(corev1.NamespaceAll)), inNamespace: listerOf(core.Pods(namespace))},
		{resource: "deviceclasses", all: listerOf(devices.DeviceClasses())},
		{resource: "resourceslices", all: listerOf(devices.ResourceSlices())},
		{
			resource: "resourceclaims", all: listerOf(devices.ResourceClaims(corev1.NamespaceAll)),
			inNamespace: listerOf(devices.ResourceClaims(namespace)),
		},
		{
			resource: "resourceclaimtemplates", all: listerOf(devices.ResourceClaimTemplates(corev1.NamespaceAll)),
			inNamespace: listerOf(devices.ResourceClaimTemplates(namespace)),
		},
		{resource: "devicetaintrules", all: listerOf(devices.DeviceTaintRules()), earlier: earlierRules, optional: true},
		{resource: "podgroups", all: listerOf(groups.PodGroups(corev1.NamespaceAll)), optional: true},
	}
}

// listed is a client of one resource.
type listed[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func listerOf[L runtime.Object](client listed[L]) lister {
	return lister{
		page: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		watch: client.Watch,
	}
}

func (r *reader) list(ctx context.Context, page pager.ListPageFunc) error {
	all, _, err := pager.New(page).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(object runtime.Object) error {
		current, err := asCurrent(object)
		if err != nil {
			return err
		}
		return r.objects.add(current, Origin{File: "cluster"})
	})
}

// asCurrent converts an object of a cluster to the version that dray uses, and sets the defaults of
// fields that an older server does not know.
func asCurrent(object runtime.Object) (runtime.Object, error) {
	if rule, isEarlier := object.(*resourcev1beta2.DeviceTaintRule); isEarlier {
		return toV1(rule, resourcev1beta2.SchemeGroupVersion.WithKind("DeviceTaintRule"))
	}
	SetDefaults(object)
	return object, nil
}
