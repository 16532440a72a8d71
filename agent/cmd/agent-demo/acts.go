// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/demo"
)

// acts returns the steps of the demo, in order.
func (s *stage) acts() []demo.Act {
	return []demo.Act{
		{What: "start the node", Play: s.showNode},
		{What: "publish devices", Play: s.showDevices},
		{What: "schedule a pod", Play: s.showPod},
		{What: "prepare its claim", Play: s.showPrepared},
		{What: "let a GPU fail", Play: s.showFailure},
		{What: "end the pod", Play: s.showEnd},
	}
}

func (s *stage) showNode(ctx context.Context) error {
	if _, err := s.Client.CoreV1().Nodes().Create(ctx, node(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	// not cancelled with ctx: run stops it after the agent
	if err := s.startNode(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.Say("%s is registered, and dray-agent runs on it with simulated hardware.", nodeName)
	return nil
}

func (s *stage) showDevices(ctx context.Context) error {
	var slices []resourceapi.ResourceSlice
	err := s.Until(ctx, func(ctx context.Context) (bool, error) {
		list, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		slices = list.Items
		return complete(slices, gpuDriver) && complete(slices, nicDriver), nil
	})
	if err != nil {
		return err
	}
	s.Say("dray-agent has published %d ResourceSlices. dray devices, on the live cluster:", len(slices))
	return s.ShowDevices(ctx, "")
}

// complete tells whether all slices of a driver's pool exist.
func complete(slices []resourceapi.ResourceSlice, driver string) bool {
	found, want := int64(0), int64(1)
	for i := range slices {
		if slices[i].Spec.Driver == driver {
			found, want = found+1, slices[i].Spec.Pool.ResourceSliceCount
		}
	}
	return found >= want
}

func (s *stage) showPod(ctx context.Context) error {
	if err := s.createObjects(ctx); err != nil {
		return err
	}
	s.Say("Pod %s is created. Its claim wants a GPU, and a share of a NIC at the same PCIe root.", podName)
	err := s.Until(ctx, func(ctx context.Context) (bool, error) {
		pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, podName, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
	if err != nil {
		return err
	}
	claim, err := s.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, claimName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var devices []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		devices = append(devices, result.Driver+"/"+result.Pool+"/"+result.Device)
	}
	s.Say("dray-scheduler has bound it to %s, with %s.", nodeName, strings.Join(devices, " and "))
	return nil
}

func (s *stage) showPrepared(ctx context.Context) error {
	pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, podName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := s.claims.Await(ctx, pod); err != nil {
		return err
	}
	devices, err := s.claims.CDIDevices(pod)
	if err != nil {
		return err
	}
	s.Say("The claim is prepared through the drivers' DRA sockets. The container's CDI devices:")
	for _, id := range devices["main"] {
		s.Print("        %s\n", id)
	}
	files, err := s.cdiFiles()
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := s.printFile(path); err != nil {
			return err
		}
	}
	pod.Status.Phase = v1.PodRunning
	_, err = s.Client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func (s *stage) cdiFiles() ([]string, error) {
	return filepath.Glob(filepath.Join(s.cdiDir(), "*.json"))
}

func (s *stage) printFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, content, "", "  "); err != nil {
		return fmt.Errorf("CDI file %s: %w", path, err)
	}
	s.Print("\n%s:\n%s\n", filepath.Base(path), pretty.String())
	return nil
}

func (s *stage) showFailure(ctx context.Context) error {
	s.Print("\n")
	s.Say("The script of the hardware lets %s fail, if it has not yet.", s.failing)
	var taint resourceapi.DeviceTaint
	err := s.Until(ctx, func(ctx context.Context) (bool, error) {
		list, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, slice := range list.Items {
			for _, device := range slice.Spec.Devices {
				if device.Name == s.failing && len(device.Taints) > 0 {
					taint = device.Taints[0]
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	s.Say("Its ResourceSlice says so: taint %s=%s:%s. No claim gets it without tolerating that.", taint.Key, taint.Value, taint.Effect)
	return s.ShowDevices(ctx, " "+s.failing+" ")
}

func (s *stage) showEnd(ctx context.Context) error {
	pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, podName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := s.claims.Release(ctx, pod.UID); err != nil {
		return err
	}
	files, err := s.cdiFiles()
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return fmt.Errorf("left in the folder of CDI files: %q", files)
	}
	if err := s.Client.CoreV1().Pods(namespace).Delete(ctx, podName, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		return err
	}
	err = s.Until(ctx, func(ctx context.Context) (bool, error) {
		claim, err := s.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, claimName, metav1.GetOptions{})
		return err == nil && claim.Status.Allocation == nil, err
	})
	if err != nil {
		return err
	}
	s.Say("The pod has ended: its claim is unprepared and deallocated, and no CDI file is left.")
	return nil
}
