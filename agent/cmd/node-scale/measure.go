// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// pollInterval is the interval at which the state of the cluster is polled.
const pollInterval = 250 * time.Millisecond

// figures are the results for one simulator.
type figures struct {
	nodesPerSecond float64
	registration   float64 // requests per node until all are registered, including those of the creator
	memory         float64 // KiB per node, when all nodes are idle
	requests       float64 // per node and minute, when all nodes are idle
	podsPerSecond  float64 // without claims, from the first creation until all are gone
	podsRun        float64 // the same, until all are running
	claimPods      float64 // pods with claims per second, until all claims are deleted
	claimPodsRun   float64
}

// measurement measures one simulator.
type measurement struct {
	*settings
	plane    *controlplane.ControlPlane
	subject  subject
	client   kubernetes.Interface
	program  *controlplane.Program
	progress io.Writer
}

func newMeasurement(s *settings, plane *controlplane.ControlPlane, subject subject, progress io.Writer) (*measurement, error) {
	config := plane.Config()
	config.QPS = -1 // no limit
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	return &measurement{settings: s, plane: plane, subject: subject, client: client, progress: progress}, err
}

func (m *measurement) run(ctx context.Context) (found figures, err error) {
	if err := prepareNamespace(ctx, m.client); err != nil {
		return found, err
	}
	// Requests of other programs are measured first, and subtracted.
	others, err := m.requestsWithin(ctx)
	if err != nil {
		return found, err
	}
	m.say("%.1f requests per minute without nodes", others)

	before, err := m.requests(ctx)
	if err != nil {
		return found, err
	}
	began := time.Now()
	m.program, err = m.subject.start(ctx, m.settings, m.plane, m.client)
	defer func() { err = errors.Join(err, m.program.Stop()) }()
	if err == nil {
		err = m.until(ctx, m.registered)
	}
	if err != nil {
		return found, fmt.Errorf("nodes: %w", err)
	}
	took := time.Since(began)
	after, err := m.requests(ctx)
	if err != nil {
		return found, err
	}
	found.nodesPerSecond = float64(m.nodes) / took.Seconds()
	found.registration = (after - before - others*took.Minutes()) / float64(m.nodes)
	m.say("%.1f nodes registered per second, %.1f requests for each", found.nodesPerSecond, found.registration)

	requests, err := m.requestsWithin(ctx)
	if err != nil {
		return found, err
	}
	found.requests = (requests - others) / float64(m.nodes)
	kib, err := residentKiB(m.program.PID())
	if err != nil {
		return found, err
	}
	found.memory = kib / float64(m.nodes)
	m.say("%.2f requests per node and minute, %.0f KiB per node", found.requests, found.memory)

	found.podsRun, found.podsPerSecond, err = m.passThrough(ctx, m.pods, func(i int) *corev1.Pod {
		return newPod(fmt.Sprintf("pod-%d", i), nodeName(i%m.nodes))
	})
	if err != nil {
		return found, fmt.Errorf("pods: %w", err)
	}
	m.say("%.1f pods run per second, %.1f until they are gone", found.podsRun, found.podsPerSecond)
	found.claimPodsRun, found.claimPods, err = m.passThrough(ctx, m.claims, func(i int) *corev1.Pod { return newClaimPod(fmt.Sprintf("claims-%d", i)) })
	if err != nil {
		return found, fmt.Errorf("pods with claims: %w", err)
	}
	m.say("%.1f pods with claims run per second, %.1f until their claims are gone", found.claimPodsRun, found.claimPods)
	return found, nil
}

func (m *measurement) say(format string, arguments ...any) {
	fmt.Fprintf(m.progress, "%s: %s\n", m.subject.name(), fmt.Sprintf(format, arguments...))
}

// until polls done until it returns true. It fails if the simulator ends.
func (m *measurement) until(ctx context.Context, done func(context.Context) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if m.program != nil {
			if err := m.program.Err(); err != nil {
				return false, err
			}
		}
		return done(ctx)
	})
}

// registered tells whether all nodes are ready, with leases and ResourceSlices.
func (m *measurement) registered(ctx context.Context) (bool, error) {
	nodes, err := m.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	ready := 0
	for i := range nodes.Items {
		for _, condition := range nodes.Items[i].Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready < m.nodes {
		return false, nil
	}
	leases, err := m.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil || len(leases.Items) < m.nodes {
		return false, err
	}
	slices, err := m.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	return err == nil && len(slices.Items) >= m.nodes, err
}

// passThrough creates pods, waits until all run, deletes them, and waits until they and their
// claims are gone. It returns the rate until all ran, and the rate until all were gone, in pods per
// second.
func (m *measurement) passThrough(ctx context.Context, count int, pod func(i int) *corev1.Pod) (run, gone float64, err error) {
	pods := m.client.CoreV1().Pods(namespace)
	if err := m.until(ctx, func(ctx context.Context) (bool, error) {
		accounts, err := m.client.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(accounts.Items) > 0, err // the API server refuses pods until then
	}); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := parallel(ctx, count, func(ctx context.Context, i int) error {
		_, err := pods.Create(ctx, pod(i), metav1.CreateOptions{})
		return err
	}); err != nil {
		return 0, 0, err
	}
	if err := m.until(ctx, func(ctx context.Context) (bool, error) {
		running, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
		return err == nil && len(running.Items) >= count, err
	}); err != nil {
		return 0, 0, fmt.Errorf("until they run: %w", err)
	}
	run = float64(count) / time.Since(began).Seconds()
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, 0, err
	}
	if err := m.until(ctx, func(ctx context.Context) (bool, error) {
		left, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil || len(left.Items) > 0 {
			return false, err
		}
		claims, err := m.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(claims.Items) == 0, err
	}); err != nil {
		return 0, 0, fmt.Errorf("until they are gone: %w", err)
	}
	return run, float64(count) / time.Since(began).Seconds(), nil
}

// requestsWithin returns the number of requests per minute to the idle API server.
func (m *measurement) requestsWithin(ctx context.Context) (float64, error) {
	before, err := m.requests(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(m.idle):
	}
	after, err := m.requests(ctx)
	return (after - before) / time.Since(began).Minutes(), err
}

// requests returns the number of requests that the API server has served.
func (m *measurement) requests(ctx context.Context) (float64, error) {
	text, err := m.client.CoreV1().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("metrics of the API server: %w", err)
	}
	return sumOf(string(text), "apiserver_request_total")
}

// sumOf returns the sum of a counter over all its labels.
func sumOf(metrics, name string) (sum float64, err error) {
	found := false
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, name+"{")
		if !ok {
			continue
		}
		end := strings.LastIndexByte(rest, '}')
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[end+1:]), 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("metric %s: not there", name)
	}
	return sum, nil
}

// residentKiB returns the resident memory of a process in KiB, from /proc.
func residentKiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("VmRSS is not in /proc/%d/status", pid)
}
