package admission

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const pause = 20 * time.Millisecond

// Await returns once pods of a PriorityClass can be created in a namespace, which needs both
// of them and the namespace's service account. An empty name is that of no class. No pod is
// created. The error is that of the last attempt if ctx ends before.
func Await(ctx context.Context, client kubernetes.Interface, namespace, priorityClass string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "admission"},
		Spec: corev1.PodSpec{
			PriorityClassName: priorityClass,
			Containers:        []corev1.Container{{Name: "main", Image: "example.com/main"}},
		},
	}
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
