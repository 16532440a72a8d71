// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is how long pods and nodes may take. A node is a minute old before others are made in its likeness.
	patience = 4 * time.Minute
	// steady is how long nothing may change then. cluster-autoscaler looks each second.
	steady = 8 * time.Second
	period = 250 * time.Millisecond
	// templateAge is for how long a node has to be ready. Times of the API have seconds.
	templateAge = time.Minute + 2*time.Second
)

// counts are pods of a case, and nodes that were added to the least number of each group.
type counts struct{ running, waiting, gpus, parts, bare int }

func (c counts) String() string {
	return fmt.Sprintf("%d pods running, %d waiting; nodes added: %d with GPUs, %d with parts, %d without devices", c.running, c.waiting, c.gpus, c.parts, c.bare)
}

// expect waits until there is what is wanted, and sees that it stays so.
func (s *scene) expect(ctx context.Context, want counts) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var since time.Time
	var last counts
	for {
		got, err := s.count(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil: // it was too long
		case got != want:
			since, last = time.Time{}, got
		case since.IsZero():
			since, last = time.Now(), got
		case time.Since(since) > steady:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v after %v, want %v\n%s", last, patience, want, s.describe())
		case <-time.After(period):
		}
	}
}

func (s *scene) count(ctx context.Context) (got counts, err error) {
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return got, err
	}
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case pod.DeletionTimestamp != nil: // its successor counts
		case pod.Status.Phase == corev1.PodRunning:
			got.running++
		default:
			got.waiting++
		}
	}
	for group, count := range map[string]*int{withGPUs: &got.gpus, withParts: &got.parts, withoutAny: &got.bare} {
		nodes, err := s.nodes(ctx, group)
		if err != nil {
			return got, err
		}
		*count = len(nodes) - least[group]
	}
	return got, nil
}

// expectEvent waits for an event of a reason.
func (s *scene) expectEvent(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		events, err := s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == reason }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no event %s after %v\n%s", reason, patience, s.describe())
		case <-time.After(period):
		}
	}
}

// awaitOldNode waits until there is a node with GPUs in whose likeness others are made.
func (s *scene) awaitOldNode(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, period, patience, true, func(ctx context.Context) (bool, error) {
		nodes, err := s.nodes(ctx, withGPUs)
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(nodes, func(node corev1.Node) bool {
			return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && time.Since(c.LastTransitionTime.Time) > templateAge
			})
		}), nil
	})
}

// describe has a line for each pod and each event.
func (s *scene) describe() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out strings.Builder
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		fmt.Fprintf(&out, "pod %s: %s, on %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
		for _, condition := range pod.Status.Conditions {
			if condition.Status != corev1.ConditionTrue && condition.Message != "" {
				fmt.Fprintf(&out, "; %s: %s", condition.Reason, condition.Message)
			}
		}
		out.WriteByte('\n')
	}
	events, err := s.client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return out.String() + err.Error()
	}
	for i := range events.Items {
		event := &events.Items[i]
		if event.Namespace == s.namespace || event.InvolvedObject.Kind == "Node" || event.Source.Component == "cluster-autoscaler" {
			fmt.Fprintf(&out, "event %s of %s %s: %s\n", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
		}
	}
	return out.String()
}
