// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/schedplugin/internal/dev/admission"
)

// act is a step of the demo: objects that are created together, and what is expected.
type act struct {
	title    string
	manifest string
	// unplaceable says that the pods are expected to find no node.
	unplaceable bool
}

var acts = []act{
	{title: "A claim by name: two GPUs at one NUMA node", manifest: "1-by-name.yaml"},
	{title: "A claim from a template for each of three pods", manifest: "2-by-template.yaml"},
	{title: "One claim, shared by two pods", manifest: "3-shared.yaml"},
	{title: "A pod of low priority takes all eight H200s", manifest: "4-large.yaml"},
	{title: "A prioritized list: an H200 or, as none is left, two A100s", manifest: "5-prioritized.yaml"},
	{title: "Partitions: a half and two quarters fill one GPU, the whole is another", manifest: "6-partitioned.yaml"},
	{title: "A pod that wants nine GPUs does not fit anywhere", manifest: "7-too-large.yaml", unplaceable: true},
	{title: "A pod of high priority wants all H200s, and preempts the pod that has them", manifest: "8-preempting.yaml"},
}

// setting is what all acts need.
const setting = "0-classes.yaml"

// actTimeout is how long an act may take before the demo goes on without it.
const actTimeout = 20 * time.Second

const (
	pollPeriod = 20 * time.Millisecond
	// eventTimeout is how long Events may take that have been written.
	eventTimeout = 10 * time.Second
)

// play shows all acts, one after the other.
func play(ctx context.Context, out io.Writer, client kubernetes.Interface) error {
	objects, err := create(ctx, client, setting)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if class, ok := object.(*schedulingv1.PriorityClass); ok {
			if err := admission.Await(ctx, client, "demo", class.Name); err != nil {
				return err
			}
		}
	}
	// Watches that are open when the API server ends keep it from ending.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := newStage(ctx, client, newBoard(out))
	if err != nil {
		return err
	}
	begin := time.Now()
	for _, act := range acts {
		if err := s.perform(ctx, act); err != nil {
			return err
		}
	}
	return s.summarize(ctx, time.Since(begin))
}

// perform shows one act. An act that does not end as expected is not an error: what
// happened instead is part of what is shown.
func (s *stage) perform(ctx context.Context, a act) error {
	s.board.title(a.title)
	pods, err := s.create(ctx, a.manifest)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	for _, pod := range pods {
		err := s.await(waiting, pod, a.unplaceable)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.board.note(fmt.Sprintf("%s is still pending after %v.", pod, actTimeout))
		}
		if err != nil || a.unplaceable {
			if err := s.explain(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// explain prints the Events that say why a pod was not placed.
func (s *stage) explain(ctx context.Context, pod string) error {
	var events *corev1.EventList
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, eventTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		events, err = s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + pod + ",type=" + corev1.EventTypeWarning,
		})
		return err == nil && slices.ContainsFunc(events.Items, saysFailed), err
	})
	if err != nil {
		return fmt.Errorf("events of pod %s: %w", pod, err)
	}
	for _, event := range events.Items {
		s.board.note(fmt.Sprintf("Event %s of pod %s: %s", event.Reason, pod, event.Message))
	}
	return nil
}

// saysFailed tells whether this is what kube-scheduler writes last about an attempt.
func saysFailed(event corev1.Event) bool { return event.Reason == "FailedScheduling" }

// summarize counts what became of the pods.
func (s *stage) summarize(ctx context.Context, took time.Duration) error {
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	counts := make(map[corev1.PodPhase]int)
	for _, pod := range pods.Items {
		counts[pod.Status.Phase]++
	}
	s.board.conclude(fmt.Sprintf("Of the pods, %d run, %d wait, %d had to go; %.1fs in all.",
		counts[corev1.PodRunning], counts[corev1.PodPending], s.evictions(), took.Seconds()))
	return nil
}
