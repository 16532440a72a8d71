// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources asks kubelet which devices containers have. The device plugin API does not
// report when a device becomes free. This API helps to find out.
//
// It uses the pod resources API v1 (KEP-606) on kubelet's socket. A device that is not reported is
// not necessarily free. Kubelet 1.37 does not report devices of init containers other than
// sidecars. After a restart, kubelet reports no pods until it knows them. See [Judge].
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

// Socket is the path of kubelet's socket.
const Socket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// maxAnswer is the maximum size of a response, in bytes. It suffices for the pods of a large node.
const maxAnswer = 16 << 20

// Answer is kubelet's report about plugin devices.
type Answer struct {
	// Asked is a time before kubelet was asked.
	Asked time.Time
	// InUse are the IDs of plugin devices in use, by resource.
	InUse map[string][]string
	// pods is the report per pod name. Kubelet may have two pods of one name: a force-deleted one
	// and a new one.
	pods map[types.NamespacedName]reported
}

// reported is kubelet's report about pods of one name.
type reported struct {
	pods  int
	count map[string]int64 // of devices, by resource
}

// List asks kubelet once. It returns an error if kubelet does not answer.
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

// AnswerOf converts a response of kubelet. asked is a time before the request.
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

// Follow asks kubelet at an interval until ctx is done, and calls report with each answer. If
// kubelet does not answer, report is not called. An error of report is logged.
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
