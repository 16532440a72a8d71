// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
	"github.com/dray-project/dray/cmd/dray/internal/input"
)

const roles = "../../../deploy/cli-rbac.yaml"

// With dray-reader everything can be asked, and without any of its rules something is missing that is named.
func TestReaderHasWhatItNeeds(t *testing.T) {
	supplied(t, "rights")
	content, err := os.ReadFile(roles)
	if err != nil {
		t.Fatal(err)
	}
	create(t, string(content)+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dray-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dray-cluster-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: rights}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dray-namespace-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: rights}, spec: `+template+`}
`)
	commands := []string{
		"explain p -n rights", "explain -n rights", "allocate -n rights -o name", "devices -o name", "simulate fits -n rights", "simulate plan -n rights --like rights",
		"simulate victims p -n rights", "simulate drain rights", "simulate what-if -n rights --add rights=1", "simulate when -n rights", "simulate repack -n rights --for p",
	}
	awaitRight(t, "reader", "nodes", "")
	awaitRight(t, "tenant", "nodes", "")
	awaitRight(t, "tenant", "pods", "rights")
	for _, command := range commands {
		if out := expect(t, command+" --as reader", cli.ExitOK); strings.Contains(out, "forbidden") || strings.Contains(out, "warning: list") {
			t.Errorf("dray %s --as reader:\n%s", command, out)
		}
	}
	follows(t, "reader")
	expect(t, "explain p -n rights --as tenant", cli.ExitOK, "warning: cluster: list pods: not permitted in all namespaces: those of namespace rights are looked at", "Pod rights/p can be placed")
	expect(t, "explain p -n default --as tenant", cli.ExitError, `pods is forbidden: User "tenant"`)
	expect(t, "explain -n rights --as nobody", cli.ExitError, `error: list nodes: nodes is forbidden: User "nobody" cannot list resource "nodes"`)
	everyRule(t, content)
}

// follows has a user who sees a new pod without asking again, as the page of dray view does.
func follows(t *testing.T, user string) {
	t.Helper()
	config := plane.Config()
	config.Impersonate.UserName = user
	as, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	f, err := input.Follow(ctx, as, "rights", func() {})
	if err != nil {
		t.Fatalf("follow as %s: %v", user, err)
	}
	defer func() {
		stop()
		f.Wait()
	}()
	create(t, "{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: rights}, spec: "+template+"}")
	await(t, "a new pod is seen", func(context.Context) (bool, error) {
		objects, err := f.Objects()
		return err == nil && slices.ContainsFunc(objects.Pods, func(pod *corev1.Pod) bool { return pod.Name == "late" }), err
	})
	if err := f.Broken(); err != nil {
		t.Errorf("as %s: %v", user, err)
	}
	if err := client.CoreV1().Pods("rights").Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// everyRule has a user for each resource who may list all but that.
func everyRule(t *testing.T, content []byte) {
	t.Helper()
	var whole rbacv1.ClusterRole
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Name == "dray-reader" {
			whole = role
		}
	}
	optional := map[string]bool{"devicetaintrules": true, "podgroups": true, "jobs": true, "poddisruptionbudgets": true}
	for _, rule := range whole.Rules {
		for _, without := range rule.Resources {
			name := "without-" + without
			role := whole.DeepCopy()
			role.ObjectMeta = metav1.ObjectMeta{Name: name}
			for i := range role.Rules {
				role.Rules[i].Resources = remove(role.Rules[i].Resources, without)
			}
			if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			create(t, strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NAME}]
`, "NAME", name))
			if without == "nodes" {
				awaitRight(t, name, "pods", "")
			} else {
				awaitRight(t, name, "nodes", "")
			}
			if optional[without] {
				expect(t, "explain p -n rights --as "+name, cli.ExitOK)
				continue
			}
			expect(t, "explain p -n rights --as "+name, cli.ExitError, fmt.Sprintf("%s is forbidden: User %q cannot list resource %q", qualified(rule, without), name, without))
		}
	}
}

// awaitRight returns when the API server knows that a user may list a resource: it learns of new roles and bindings a little
// later than it stores them.
func awaitRight(t *testing.T, user, resource, namespace string) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: resource, Namespace: namespace},
	}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("user %s may not list %s: %+v", user, resource, answer.Status)
		}
	}
}

func qualified(rule rbacv1.PolicyRule, resource string) string {
	if rule.APIGroups[0] == "" {
		return resource
	}
	return resource + "." + rule.APIGroups[0]
}

func remove(list []string, one string) []string {
	var rest []string
	for _, each := range list {
		if each != one {
			rest = append(rest, each)
		}
	}
	if rest == nil {
		return []string{"none"}
	}
	return rest
}

// Unknown credentials, or a server with another certificate, are an error that says so.
func TestCredentials(t *testing.T) {
	stranger := kubeconfig(t, func(config *clientcmdapi.Config) {
		for _, user := range config.AuthInfos {
			*user = clientcmdapi.AuthInfo{Token: "expired"}
		}
	})
	distrusted := kubeconfig(t, func(config *clientcmdapi.Config) {
		for _, cluster := range config.Clusters {
			cluster.CertificateAuthorityData = nil
		}
	})
	for path, want := range map[string]string{
		stranger:   "error: list nodes: Unauthorized\n",
		distrusted: "certificate signed by unknown authority",
	} {
		out, status := dray(t, "explain", "-A", "--kubeconfig", path)
		if status != cli.ExitError || !strings.Contains(out, want) {
			t.Errorf("status %d, want %q in\n%s", status, want, out)
		}
	}
	out, status := dray(t, "explain", "--context", "gone")
	if status != cli.ExitError || !strings.Contains(out, `context "gone" does not exist`) {
		t.Errorf("status %d\n%s", status, out)
	}
	expect(t, "__complete explain --context d", cli.ExitOK, "dray\n:4\n")
}
