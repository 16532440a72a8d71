// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// server answers attempts to create pods with errors, in order, and then with success.
func server(t *testing.T, errs ...error) (client *fake.Clientset, attempts *int) {
	t.Helper()
	client, attempts = fake.NewClientset(), new(int)
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		pod := create.Object.(*corev1.Pod)
		if len(create.CreateOptions.DryRun) == 0 || pod.Namespace+create.Namespace == "" || pod.Spec.PriorityClassName != "urgent" {
			t.Errorf("created %v with %v", pod, create.CreateOptions)
		}
		*attempts++
		if *attempts <= len(errs) {
			return true, nil, errs[*attempts-1]
		}
		return true, pod, nil
	})
	return client, attempts
}

var (
	errClass  = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "admission", errors.New("no PriorityClass"))
	errNames  = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")
	errObject = apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "admission", nil)
)

func TestAwaitTriesAgain(t *testing.T) {
	client, attempts := server(t, errNames, errClass, errClass)
	if err := Await(t.Context(), client, "ns", "urgent"); err != nil || *attempts != 4 {
		t.Errorf("%v after %d attempts, expected success after 4", err, *attempts)
	}
}

func TestAwaitGivesUp(t *testing.T) {
	client, attempts := server(t, errObject)
	if err := Await(t.Context(), client, "ns", "urgent"); !errors.Is(err, errObject) || *attempts != 1 {
		t.Errorf("%v after %d attempts, expected %v after 1", err, *attempts, errObject)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	forever := make([]error, 1000)
	for i := range forever {
		forever[i] = errClass
	}
	client, _ = server(t, forever...)
	err := Await(ctx, client, "ns", "urgent")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no PriorityClass") {
		t.Errorf("%v, expected what the API server said last", err)
	}
}

// TestAwaitWithoutClass shows that the class may be left out.
func TestAwaitWithoutClass(t *testing.T) {
	client := fake.NewClientset()
	if err := Await(t.Context(), client, "ns", ""); err != nil {
		t.Fatal(err)
	}
	if n := len(client.Actions()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
