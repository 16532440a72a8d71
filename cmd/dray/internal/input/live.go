package input

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// Live lists what dray uses from a cluster that serves resource.k8s.io/v1, page by
// page. Step is called with the plural of each kind before it is listed; it may
// be nil. Objects that the API server accepted are not validated again.
//
// Who may list pods and claims in the one namespace only is told what is missing by a
// warning.
func Live(ctx context.Context, client kubernetes.Interface, namespace string, step func(resource string)) (*Objects, error) {
	r := newReader(Options{})
	r.objects.Complete = true
	for _, l := range lists(client, namespace) {
		if step != nil {
			step(l.resource)
		}
		err := r.list(ctx, l.page)
		if l.inNamespace != nil && apierrors.IsForbidden(err) {
			r.warn(Origin{File: "cluster"}, fmt.Errorf("list %s: not permitted in all namespaces: those of namespace %s are looked at, and what others hold of devices is not known", l.resource, namespace))
			r.objects.Complete = false
			err = r.list(ctx, l.inNamespace)
		}
		if l.optional && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", l.resource, err)
		}
	}
	return r.result()
}

// list names one kind and how a page of it is got.
type list struct {
	resource string
	page     pager.ListPageFunc
	// inNamespace is the page function for who has rights in one namespace only.
	inNamespace pager.ListPageFunc
	// optional kinds may be unknown to the cluster, or closed to the user.
	optional bool
}

func lists(client kubernetes.Interface, namespace string) []list {
	core, devices, groups := client.CoreV1(), client.ResourceV1(), client.SchedulingV1beta1()
	return []list{
		{resource: "nodes", page: paged(core.Nodes().List)},
		{resource: "pods", page: paged(core.Pods(corev1.NamespaceAll).List), inNamespace: paged(core.Pods(namespace).List)},
		{resource: "deviceclasses", page: paged(devices.DeviceClasses().List)},
		{resource: "resourceslices", page: paged(devices.ResourceSlices().List)},
		{
			resource: "resourceclaims", page: paged(devices.ResourceClaims(corev1.NamespaceAll).List),
			inNamespace: paged(devices.ResourceClaims(namespace).List),
		},
		{
			resource: "resourceclaimtemplates", page: paged(devices.ResourceClaimTemplates(corev1.NamespaceAll).List),
			inNamespace: paged(devices.ResourceClaimTemplates(namespace).List),
		},
		{resource: "devicetaintrules", page: paged(devices.DeviceTaintRules().List), optional: true},
		{resource: "podgroups", page: paged(groups.PodGroups(corev1.NamespaceAll).List), optional: true},
	}
}

func paged[L runtime.Object](get func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return get(ctx, options)
	}
}

func (r *reader) list(ctx context.Context, page pager.ListPageFunc) error {
	all, _, err := pager.New(page).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(object runtime.Object) error {
		// A server that is older than a field does not set its default.
		SetDefaults(object)
		return r.objects.add(object, Origin{File: "cluster"})
	})
}
