// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/record"

	"github.com/dray-project/dray/agent/kubeletapi"
	"github.com/dray-project/dray/agent/provider/process"
	"github.com/dray-project/dray/agent/virtualnode"
)

// podsGrace is the grace period of pods' processes when the agent stops.
const podsGrace = 5 * time.Second

// processesTaint keeps away pods that do not tolerate to run as processes.
const processesTaint = "dray.dev/processes"

// kubeletVersion is the kubelet version in the node's status.
const kubeletVersion = "v1.37.2-dray"

// maxPods is the node's capacity for pods.
const maxPods = 110

// startNode runs a virtual node whose pods are processes, until ctx ends. It returns when the node
// is registered. The processes end with the node.
func (a *agent) startNode(ctx context.Context, cancel context.CancelCauseFunc) error {
	registered, err := nodeObject(a.flags.nodeName)
	if err != nil {
		return err
	}
	if a.flags.taint {
		registered.Spec.Taints = []corev1.Taint{{Key: processesTaint, Effect: corev1.TaintEffectNoSchedule}}
	}
	listener, err := a.listenForPods(registered)
	if err != nil {
		return err
	}
	var provider *process.Provider
	virtual, err := virtualnode.New(virtualnode.Options{
		Client: a.client, Node: registered, Folder: a.flags.kubeletDir,
		NewProvider: func(devices virtualnode.Devices, recorder record.EventRecorder) (virtualnode.Provider, error) {
			provider, err = process.New(process.Options{
				Folder: filepath.Join(a.flags.kubeletDir, "pods"), LogFolder: filepath.Join(a.flags.kubeletDir, "pod-logs"),
				Devices: devices, CDIFolders: []string{a.flags.cdiDir}, AllowRoot: a.flags.podsRoot, Recorder: recorder,
			})
			return provider, err
		},
	})
	if err != nil {
		return errors.Join(err, closeIf(listener))
	}
	a.running.Go(func() {
		if err := virtual.Run(ctx); err != nil {
			cancel(err)
		}
		if provider != nil {
			provider.Close(podsGrace)
		}
	})
	select {
	case <-virtual.Ready():
		a.servePods(ctx, cancel, listener, nodePods{virtual, provider})
		return nil
	case <-ctx.Done():
		return errors.Join(ended(ctx), closeIf(listener))
	}
}

// listenForPods listens for requests of kubelet's API, and writes address and port to the node's
// status. It returns nil if the API is not served.
func (a *agent) listenForPods(registered *corev1.Node) (net.Listener, error) {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil { // the machine has no default route
		ip = net.IPv4(127, 0, 0, 1)
	}
	var listener net.Listener
	if a.flags.podsListen != "" {
		if listener, err = net.Listen("tcp", a.flags.podsListen); err != nil {
			return nil, fmt.Errorf("--pods-listen: %w", err)
		}
		if address, ok := listener.Addr().(*net.TCPAddr); ok {
			registered.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(address.Port)
			if !address.IP.IsUnspecified() {
				ip = address.IP
			}
		}
	}
	registered.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: ip.String()}, {Type: corev1.NodeHostName, Address: a.flags.nodeName},
	}
	return listener, nil
}

func closeIf(listener net.Listener) error {
	if listener == nil {
		return nil
	}
	return listener.Close()
}

// nodePods gives access to all pods of the node, and to the logs of those that run.
type nodePods struct {
	*virtualnode.Node
	provider *process.Provider
}

// LogFile implements kubeletapi.Pods.
func (p nodePods) LogFile(pod *corev1.Pod, container string, previous bool) (string, error) {
	return p.provider.LogFile(pod, container, previous)
}

// servePods serves kubelet's API until ctx is done.
func (a *agent) servePods(ctx context.Context, cancel context.CancelCauseFunc, listener net.Listener, pods kubeletapi.Pods) {
	if listener == nil {
		return
	}
	a.running.Go(func() {
		err := kubeletapi.Serve(ctx, listener, kubeletapi.Options{
			NodeName: a.flags.nodeName, Client: a.client, Pods: pods,
			ClientCAFile: a.flags.clientCA, CertFile: a.flags.tlsCert, KeyFile: a.flags.tlsKey,
		})
		if err != nil {
			cancel(err)
		}
	})
}

// nodeObject returns a Node with the capacity of this machine.
func nodeObject(name string) (*corev1.Node, error) {
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return nil, fmt.Errorf("memory of this machine: %w", err)
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(machine.Totalram)*int64(machine.Unit), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "VirtualNode",
				Message: "pods run as processes of dray-agent's machine", LastTransitionTime: metav1.Now(),
			}},
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, KubeletVersion: kubeletVersion},
		},
	}, nil
}
