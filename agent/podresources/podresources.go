// Package podresources asks kubelet which devices its containers have. The
// device plugin API does not tell when a device becomes free; this one does.
//
// It is the pod resources API v1 (KEP-606), over a socket that kubelet makes.
package podresources

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Socket is where kubelet answers.
const Socket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// maxAnswer is enough for the devices of all pods of a large node.
const maxAnswer = 16 << 20

// List returns the IDs of plugin devices in use, by resource. It is an error if
// kubelet does not answer.
func List(ctx context.Context, socket string) (map[string][]string, error) {
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
	inUse := make(map[string][]string)
	for _, pod := range answer.GetPodResources() {
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				inUse[devices.GetResourceName()] = append(inUse[devices.GetResourceName()], devices.GetDeviceIds()...)
			}
		}
	}
	return inUse, nil
}

// Follow lists in intervals until ctx is done, and calls report with each
// answer. While kubelet does not answer nothing is reported: what was in use
// then still is. An error of report is logged.
func Follow(ctx context.Context, socket string, interval time.Duration, report func(map[string][]string) error) {
	logger := klog.FromContext(ctx)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		inUse, err := listWithin(ctx, socket, interval)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			logger.V(1).Info("Kubelet does not say which devices are in use", "err", err)
		default:
			if err := report(inUse); err != nil {
				logger.Error(err, "Devices that are no longer in use are not free")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func listWithin(ctx context.Context, socket string, timeout time.Duration) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return List(ctx, socket)
}
