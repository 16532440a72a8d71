// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/install"
)

// account is a client of an address with a token of the agent's ServiceAccount.
func (i *installation) account(t *testing.T, address, token string) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(i.plane.Config())
	config.Host, config.BearerToken = address, token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// writeSlices writes slices with the agent's token, and with one of its ServiceAccount that is
// not bound to a pod.
func (i *installation) writeSlices(t *testing.T) {
	unbound, err := install.Token(t.Context(), i.client, i.pod.Namespace, i.pod.Spec.ServiceAccountName, nil)
	if err != nil {
		t.Fatal(err)
	}
	slice := func(node string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "slice-of-" + node},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "other.example.com", NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			},
		}
	}
	everywhere := slice("all")
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	bound := i.account(t, i.plane.Address(), i.token(t)).ResourceV1().ResourceSlices()
	for name, test := range map[string]struct {
		slice *resourceapi.ResourceSlice
		token string
		want  string
	}{
		"another node": {slice("node-2"), i.token(t), `dray-agent on node node-1 must not write a ResourceSlice of node "node-2"`},
		"all nodes":    {everywhere, i.token(t), `must not write a ResourceSlice of node ""`},
		"no pod":       {slice(nodeName), unbound, "does not name a node"},
	} {
		_, err := i.account(t, i.plane.Address(), test.token).ResourceV1().ResourceSlices().Create(t.Context(), test.slice, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: create: error %v, want %q", name, err, test.want)
		}
	}
	theirs, err := i.client.ResourceV1().ResourceSlices().Create(t.Context(), slice("node-2"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs.Spec.Pool.Generation++
	_, updateErr := bound.Update(t.Context(), theirs, metav1.UpdateOptions{})
	for verb, err := range map[string]error{"update": updateErr, "delete": bound.Delete(t.Context(), theirs.Name, metav1.DeleteOptions{})} {
		if err == nil || !strings.Contains(err.Error(), "must not write a ResourceSlice of node") {
			t.Errorf("%s of the slice of another node: error %v", verb, err)
		}
	}
	ours, err := bound.Create(t.Context(), slice(nodeName), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bound.Delete(t.Context(), ours.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// withholdDriver shows that the one permission which no request names is needed.
func (i *installation) withholdDriver(t *testing.T) {
	roles := i.client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "dray-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "resourceclaims/driver") })
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := i.account(t, i.plane.Address(), i.token(t)).ResourceV1().ResourceClaims("default")
	eventually(t, "a refusal", func(ctx context.Context) (any, error) {
		_, err := claim.Patch(ctx, "one", "application/merge-patch+json", []byte(`{"status":{"devices":[]}}`), metav1.PatchOptions{}, "status")
		if err == nil || !apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "resourceclaims/driver") {
			return nil, fmt.Errorf("error %w", errors.Join(err, errors.New("want one about resourceclaims/driver")))
		}
		return nil, nil
	})
}
