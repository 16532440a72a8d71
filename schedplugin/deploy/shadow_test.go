// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega" //nolint:revive // how expectations are written
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/internal/dev/install"
	"github.com/dray-project/dray/schedplugin/cmd/dray-scheduler/shadow"
)

// TestShadowPermissions compares the role that docs/operations.md has for a shadow with what a shadow asks of the API
// server: each request is allowed, and each permission is used.
func TestShadowPermissions(t *testing.T) {
	g := NewWithT(t)
	role := shadowRole(t)
	plane, client := startPlane(t)
	const name = "dray-shadow"
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	_, err = accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	token, err := install.Token(t.Context(), client, metav1.NamespaceSystem, name, nil)
	g.Expect(err).NotTo(HaveOccurred())
	requests := record(t, plane)
	access := &rest.Config{Host: requests.Address(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: plane.Config().CAData}}
	g.Expect(follow(t, access)).To(Succeed())
	// Informers list before they watch where an API server cannot do both in one.
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	g.Expect(follow(t, access)).To(Succeed())
	lacking, idle := install.Compare(install.Granted(role.Rules...), requests.Needed())
	g.Expect(lacking).To(BeEmpty(), "needed, and not allowed")
	g.Expect(idle).To(BeEmpty(), "allowed, and never needed")
	g.Expect(requests.Refused()).To(BeEmpty())
}

// follow has a shadow follow a cluster until it knows everything. It asks for nothing else afterwards.
func follow(t *testing.T, access *rest.Config) error {
	configuration, err := options.LoadConfigFromFile(klog.Background(), "chart/base/scheduler-config.yaml")
	if err != nil {
		return err
	}
	reading := rest.CopyConfig(access)
	reading.Wrap(shadow.ReadOnly)
	client, err := kubernetes.NewForConfig(reading)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err = shadow.New(ctx, client, configuration.Profiles, 0)
	return err
}

// shadowRole is what docs/operations.md says.
func shadowRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "```yaml\napiVersion: rbac.authorization.k8s.io/v1\n", "```"
	_, after, found := strings.Cut(string(text), begin)
	block, _, closed := strings.Cut(after, end)
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(begin, "```yaml\n")+block), role); err != nil || !found || !closed {
		t.Fatalf("docs/operations.md has no role for a shadow: %v", err)
	}
	return role
}
