// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Whatever would change something in the API server does not leave the program.
func TestReadOnly(t *testing.T) {
	var reads, writes atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet {
			reads.Add(1)
		} else {
			writes.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	config.Wrap(ReadOnly)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, pods := t.Context(), client.CoreV1().Pods("default")
	if pod, err := pods.Get(ctx, "p", metav1.GetOptions{}); err != nil || pod.Name != "p" {
		t.Errorf("a read returns %v, error %v", pod, err)
	}
	for name, write := range map[string]func() error{
		"create": func() error { _, err := pods.Create(ctx, &corev1.Pod{}, metav1.CreateOptions{}); return err },
		"update": func() error {
			_, err := pods.Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.UpdateOptions{})
			return err
		},
		"patch": func() error {
			_, err := pods.Patch(ctx, "p", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
			return err
		},
		"bind": func() error {
			return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
		},
		"delete":     func() error { return pods.Delete(ctx, "p", metav1.DeleteOptions{}) },
		"delete all": func() error { return pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) },
	} {
		if err := write(); !errors.Is(err, errReadOnly) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if reads.Load() != 1 || writes.Load() != 0 {
		t.Errorf("%d reads and %d writes reached the server, want 1 and none", reads.Load(), writes.Load())
	}
}
