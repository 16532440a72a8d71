// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/install"
)

// TestProcesses goes with an agent that runs pods as processes through all that needs a permission, and
// compares as TestInstallation does.
func TestProcesses(t *testing.T) {
	i := &processes{installation: onControlPlane(t, rendered(t, "kustomize", "processes"), "arbitrary-node")}
	i.apply(t)
	i.hardware(t, 130)
	for _, act := range []struct {
		name string
		play func(*testing.T)
	}{
		{"publish", func(t *testing.T) { i.launch(t); i.slices(t, 2, 130) }},
		{"run a pod with a claim", i.runPod},
		{"show its log", i.showLog},
		{"delete it", i.deletePod},
		{"devices go", i.shrink},
		{"try again and again", i.retry},
		{"start with a damaged ledger", func(t *testing.T) {
			i.stop(t)
			i.damageLedgers(t)
			i.hardware(t, 6)
			i.launch(t, "KUBE_FEATURE_WatchListClient=false")
			i.slices(t, 1, 6)
			i.stop(t)
		}},
		{"exactly these permissions", i.comparePermissions},
	} {
		if !t.Run(act.name, act.play) {
			return
		}
	}
}

// processes is an agent that runs pods as processes, with a token of its ServiceAccount.
type processes struct {
	*installation
	pod *corev1.Pod // that runs
}

func (i *processes) launch(t *testing.T, environment ...string) {
	t.Helper()
	account := as[corev1.ServiceAccount](t, i.objects, "ServiceAccount")
	token, err := install.Token(t.Context(), i.client, account.Namespace, account.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	i.installation.launch(t, token, []string{"run", "--run-pods", "--device-plugin=false", "--node-name=" + nodeName, "--pods-listen=127.0.0.1:0"}, environment)
}

// addPod has the node run a pod that has a claim.
func (i *processes) addPod(t *testing.T, claim *resourceapi.ResourceClaim) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: claim.Namespace}, Spec: corev1.PodSpec{
		NodeName: nodeName, AutomountServiceAccountToken: ptr.To(false), RestartPolicy: corev1.RestartPolicyNever,
		Tolerations:    []corev1.Toleration{{Key: "dray.dev/processes", Operator: corev1.TolerationOpExists}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim.Name}},
		Containers: []corev1.Container{{
			Name: "main", Image: "none", Command: []string{"/bin/sh", "-c", "echo started; exec sleep 600"},
			Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "device"}}},
		}},
	}}
	created := eventually(t, "a pod", func(ctx context.Context) (*corev1.Pod, error) {
		return i.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	})
	reserve := fmt.Appendf(nil, `{"status":{"reservedFor":[{"resource":"pods","name":%q,"uid":%q}]}}`, created.Name, created.UID)
	if _, err := i.client.ResourceV1().ResourceClaims(claim.Namespace).Patch(t.Context(), claim.Name, types.MergePatchType, reserve, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	return created
}

func (i *processes) runPod(t *testing.T) {
	i.pod = i.addPod(t, i.allocated(t, "one", "dev-0"))
	eventually(t, "the pod runs", func(ctx context.Context) (any, error) {
		pod, err := i.client.CoreV1().Pods(i.pod.Namespace).Get(ctx, i.pod.Name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("its status is %s; the log ends with\n%s", pod.Status.String(), i.log(t))
		}
		return nil, err
	})
	i.awaitReport(t)
}

// showLog asks for the pod's log as the API server does, with the token of an administrator.
func (i *processes) showLog(t *testing.T) {
	node, err := i.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the agent signed its certificate itself
	}}
	ask := func(account string) (string, error) {
		token, err := install.Token(t.Context(), i.client, metav1.NamespaceDefault, account, nil)
		if err != nil {
			return "", err
		}
		url := fmt.Sprintf("https://127.0.0.1:%d/containerLogs/%s/%s/main", node.Status.DaemonEndpoints.KubeletEndpoint.Port, i.pod.Namespace, i.pod.Name)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		return fmt.Sprintf("%d %s", response.StatusCode, text), err
	}
	// The agent remembers each answer of the API server for a while.
	i.addAccount(t, "stranger")
	i.addAccount(t, "reader")
	i.letRead(t, "reader")
	for account, want := range map[string]string{"reader": "200 started\n", "stranger": "403 "} {
		answer, err := ask(account)
		if err != nil || !strings.HasPrefix(answer, want) {
			t.Errorf("%s gets %q, error %v, want %q", account, answer, err, want)
		}
	}
}

func (i *processes) addAccount(t *testing.T, name string) {
	t.Helper()
	accounts := i.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// letRead lets an account ask for logs at nodes, and waits until the API server knows.
func (i *processes) letRead(t *testing.T, account string) {
	t.Helper()
	_, err := i.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "account "+account+" may read", func(ctx context.Context) (any, error) {
		review, err := i.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:default:" + account, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: "proxy"},
		}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("not yet: %s", review.Status.Reason)
		}
		return nil, err
	})
}

func (i *processes) deletePod(t *testing.T) {
	pods := i.client.CoreV1().Pods(i.pod.Namespace)
	if err := pods.Delete(t.Context(), i.pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func(ctx context.Context) (any, error) {
		_, err := pods.Get(ctx, i.pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("it is there: %w", err)
	})
}

// retry has a pod have a device that the node has not. Its Event is written once, and then counts.
func (i *processes) retry(t *testing.T) {
	pod := i.addPod(t, i.allocated(t, "stuck", "none"))
	eventually(t, "an Event that counts", func(ctx context.Context) (any, error) {
		list, err := i.client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
		if err == nil && !slices.ContainsFunc(list.Items, func(event corev1.Event) bool { return event.Count > 1 }) {
			err = fmt.Errorf("the Events are %v; the log ends with\n%s", list.Items, i.log(t))
		}
		return nil, err
	})
}
