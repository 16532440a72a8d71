// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources asks kubelet which devices its containers have. The
// device plugin API does not tell when a device becomes free; this one helps to find out.
//
// It is the pod resources API v1 (KEP-606), over a socket that kubelet makes. What it leaves
// out is not free by that: kubelet 1.37 does not report what ordinary init containers have,
// and a kubelet that was restarted reports no pods until it knows them. See [Judge].
package podresources

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Socket is where kubelet answers.
const Socket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// maxAnswer is enough for the devices of all pods of a large node.
const maxAnswer = 16 << 20

// Answer is what kubelet says of the devices of plugins.
type Answer struct {
	// Asked is a moment before kubelet was asked.
	Asked time.Time
	// InUse are the IDs of plugin devices in use, by resource.
	InUse map[string][]string
	// pods is what the pods of a name have. Kubelet may have two: one that was deleted by force, and a new one.
	pods map[types.NamespacedName]reported
}

// reported is what kubelet says of pods with one name.
type reported struct {
	pods  int
	count map[string]int64 // of devices, by resource
}

// List asks kubelet. It is an error if kubelet does not answer.
func List(ctx context.Context, socket string) (*Answer, error) {
	asked := time.Now()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("list pod resources: %w", err)
	}
	defer func() { _ = conn.Close() }()
	answer, err := podresourcesapi.NewPodResourcesListerClient(conn).List(ctx, &podresourcesapi.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pod resources: %w", err)
	}
	return AnswerOf(asked, answer), nil
}

// AnswerOf is what kubelet says in a response to a question that was asked at or after a moment.
func AnswerOf(asked time.Time, response *podresourcesapi.ListPodResourcesResponse) *Answer {
	out := &Answer{Asked: asked, InUse: make(map[string][]string), pods: make(map[types.NamespacedName]reported)}
	for _, pod := range response.GetPodResources() {
		name := types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()}
		known := out.pods[name]
		if known.pods++; known.count == nil {
			known.count = make(map[string]int64)
		}
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				resource, ids := devices.GetResourceName(), devices.GetDeviceIds()
				out.InUse[resource] = append(out.InUse[resource], ids...)
				known.count[resource] += int64(len(ids))
			}
		}
		out.pods[name] = known
	}
	return out
}

// Follow lists in intervals until ctx is done, and calls report with each
// answer. While kubelet does not answer nothing is reported: what was in use
// then still is. An error of report is logged.
func Follow(ctx context.Context, socket string, interval time.Duration, report func(*Answer) error) {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		answer, err := listWithin(ctx, socket, interval)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			logger.V(1).Info("Kubelet does not say which devices are in use", "err", err)
		default:
			if err := report(answer); err != nil {
				logger.Error(err, "The ledger does not follow kubelet")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func listWithin(ctx context.Context, socket string, timeout time.Duration) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return List(ctx, socket)
}
