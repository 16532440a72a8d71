// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

const pause = 20 * time.Millisecond

// Await returns once pods of a PriorityClass can be created in a namespace, which needs both
// of them and the namespace's service account. An empty name is that of no class. No pod is
// created. The error is that of the last attempt if ctx ends before.
func Await(ctx context.Context, client kubernetes.Interface, namespace, priorityClass string) error {
	pod := inventory.Pod("admission")
	pod.Spec.PriorityClassName = priorityClass
	var refused error
	err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			refused = err
			return false, nil
		}
		return err == nil, err
	})
	if err != nil && refused != nil {
		return fmt.Errorf("pods in namespace %s: %w: %w", namespace, err, refused)
	}
	return err
}
