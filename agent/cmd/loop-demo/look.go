// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/nodedriver"
)

// trainer is a pod of the Deployment trainer. Its container runs as a process on this machine.
type trainer struct {
	pod     string
	process int
	device  string
}

// printed matches the first line of a trainer's log.
var printed = regexp.MustCompile(`^\S+ stdout F (\S+) has (\S+)\n`)

// running returns the trainers that run and have logged their device, sorted by device.
func (s *stage) running(ctx context.Context) ([]trainer, error) {
	pods, err := s.podsOf(ctx, trainers)
	if err != nil {
		return nil, err
	}
	var found []trainer
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		log := filepath.Join(s.kubeletDir(), "pod-logs", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), "main", "0.log")
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		line := printed.FindStringSubmatch(string(text))
		if line == nil {
			continue // the pod has not started
		}
		// The ID in the status is the PID of the container's init. The container's other processes
		// end with it.
		process, err := strconv.Atoi(strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "process://"))
		if err != nil {
			return nil, err
		}
		found = append(found, trainer{pod: line[1], process: process, device: line[2]})
	}
	slices.SortFunc(found, func(a, b trainer) int { return strings.Compare(a.device, b.device) })
	return found, nil
}

func (s *stage) podsOf(ctx context.Context, deployment string) ([]corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + deployment})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// isAlive tells whether the trainer's process exists.
func (t trainer) isAlive() bool { return !errors.Is(syscall.Kill(t.process, 0), syscall.ESRCH) }

// left describes what remains: objects in Kubernetes, files on node-1, and processes.
func (s *stage) left(ctx context.Context, all []trainer) ([]string, error) {
	inKubernetes, err := s.leftInKubernetes(ctx)
	if err != nil {
		return nil, err
	}
	onNode, err := s.leftOnNode()
	if err != nil {
		return nil, err
	}
	left := slices.Concat(inKubernetes, onNode)
	for _, t := range all {
		if t.isAlive() {
			left = append(left, fmt.Sprintf("process %d of pod %s", t.process, t.pod))
		}
	}
	return left, nil
}

func (s *stage) leftInKubernetes(ctx context.Context) ([]string, error) {
	var left []string
	pods, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		left = append(left, "pod "+pod.Name)
	}
	claims, err := s.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, claim := range claims.Items {
		text := "claim " + claim.Name
		if claim.Status.Allocation != nil {
			text += ", which holds devices"
		}
		left = append(left, text)
	}
	return left, nil
}

// leftOnNode describes remaining CDI files, folders of pods, and entries of the checkpoints of both
// the driver and the node.
func (s *stage) leftOnNode() ([]string, error) {
	var left []string
	files, err := filepath.Glob(filepath.Join(s.cdiDir(), "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		left = append(left, "CDI file "+filepath.Base(file))
	}
	for _, folder := range []string{"pods", "pod-logs"} {
		pods, err := os.ReadDir(filepath.Join(s.kubeletDir(), folder))
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			left = append(left, filepath.Join(folder, pod.Name()))
		}
	}
	prepared, err := checkpoint.Read[[]struct{ Namespace, Name string }](filepath.Join(s.kubeletDir(), "claims.json"))
	if err != nil {
		return nil, err
	}
	for _, claim := range prepared {
		left = append(left, fmt.Sprintf("claim %s/%s in the node's checkpoint", claim.Namespace, claim.Name))
	}
	ledger, err := inventory.OpenLedger(nodedriver.LedgerPath(s.kubeletDir(), driver))
	if err != nil {
		return nil, err
	}
	for _, hold := range ledger.Holds() {
		left = append(left, fmt.Sprintf("device %s of %s in the driver's ledger", hold.Device, hold.User))
	}
	return left, nil
}
