// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/dev/install"
)

// pci is the driver that the manifests name.
const pci = "pci.example.com"

// apiServer is a name in the certificate of the API server.
const apiServer = "kubernetes.default.svc"

const nicPod = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pci}
spec: {spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: pci}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  resourceClaims: [{name: nic, resourceClaimTemplateName: pci}]
  containers:
  - {name: main, command: [sh, -c, "env; exec sleep inf"], resources: {claims: [{name: nic}]}}
`

// TestInstalled has kubelet run the agent as its manifests say: the image, the account, the rights and the mounts of the
// DaemonSet. Two things are different. Its sysfs has one device, and it finds the API server without a Service.
func TestInstalled(t *testing.T) {
	s := newSpace(t)
	daemons := s.install()
	s.create(nicPod)
	s.await("pod", corev1.PodRunning)
	until(t, "the pod has its device", func() bool {
		return slices.Contains(logs(t, s.name, "pod", "main"), "DRA_DEVICE="+pci+"/"+node.Name()+"/nic-0000-00-03-0")
	})
	first := s.awaitAgent(daemons, "")

	s.patch(daemons, `{"spec":{"template":{"metadata":{"annotations":{"update":"1"}}}}}`)
	s.awaitAgent(daemons, first)
	if pod := s.pod("pod"); pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("after an update of the agent, its pod is %+v", pod.Status)
	}

	// Without a driver, kubelet does not end a pod with its devices.
	s.remove(daemons)
	until(t, "no slice of the agent is left", func() bool { return s.published() == 0 })
	if err := client.CoreV1().Pods(s.name).Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	during(t, 10*time.Second, "the pod is there without its driver", func() bool {
		list, err := client.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1
	})
	daemons.ObjectMeta = metav1.ObjectMeta{Namespace: daemons.Namespace, Name: daemons.Name, Labels: daemons.Labels}
	if _, err := client.AppsV1().DaemonSets(daemons.Namespace).Create(t.Context(), daemons, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod is gone, and the device is published", func() bool {
		list, err := client.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0 && s.published() == 1
	})
	s.mustLeaveNothing()
}

// install applies what Kustomize makes of the agent's folder, and waits until the agent publishes.
func (s *space) install() *appsv1.DaemonSet {
	s.Helper()
	objects := s.render("../../../../agent/deploy/default")
	daemons, err := install.Find[appsv1.DaemonSet](objects, "DaemonSet")
	if err != nil {
		s.Fatal(err)
	}
	s.importProgram(daemons.Spec.Template.Spec.Containers[0].Image, "dray-agent")
	s.adapt(&daemons.Spec.Template.Spec)
	s.applyOthers(objects, "DaemonSet")
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "pci"}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == '" + pci + "'"},
	}}}}
	if _, err := client.ResourceV1().DeviceClasses().Create(s.Context(), class, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if daemons, err = client.AppsV1().DaemonSets(daemons.Namespace).Create(s.Context(), daemons, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.remove(daemons) })
	until(s.T, "the agent publishes its device", func() bool { return s.published() == 1 })
	return daemons
}

// remove deletes the DaemonSet, and waits until its pods are gone.
func (s *space) remove(daemons *appsv1.DaemonSet) {
	s.Helper()
	ctx, background := context.Background(), metav1.DeletePropagationBackground // the test may be over
	if err := client.AppsV1().DaemonSets(daemons.Namespace).Delete(ctx, daemons.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		s.Error(err)
		return
	}
	until(s.T, "no agent of the DaemonSet is left", func() bool {
		list, err := client.CoreV1().Pods(daemons.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(daemons.Spec.Selector)})
		return err == nil && len(list.Items) == 0
	})
}

// adapt gives the agent a sysfs with one network interface, and says where the API server is.
func (s *space) adapt(pod *corev1.PodSpec) {
	s.Helper()
	sys := filepath.Join(s.TempDir(), "sys")
	nic := filepath.Join(sys, "devices/pci0000:00/0000:00:03.0")
	for name, content := range map[string]string{"class": "0x020000", "vendor": "0x1af4", "device": "0x1041", "net/nic0/address": "02:00:00:00:00:01"} {
		path := filepath.Join(nic, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		filepath.Join(sys, "bus/pci/devices/0000:00:03.0"): "../../../devices/pci0000:00/0000:00:03.0", filepath.Join(nic, "driver"): "../../../bus/pci/drivers/virtio-pci",
	} {
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			s.Fatal(err)
		}
	}
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "sys" })
	pod.Volumes[volume].HostPath.Path = sys
	s.showAPIServer(pod)
}

// showAPIServer says to a pod where the API server is.
func (s *space) showAPIServer(pod *corev1.PodSpec) {
	s.Helper()
	pod.HostAliases = []corev1.HostAlias{{IP: s.address(), Hostnames: []string{apiServer}}}
	pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: apiServer}, corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: s.forward()})
}

// importProgram makes an image of a program in bin.
func (s *space) importProgram(image, program string) {
	s.Helper()
	path, err := filepath.Abs(filepath.Join(binaries, program))
	if err != nil {
		s.Fatal(err)
	}
	if err := node.ImportProgram(s.Context(), image, path); err != nil {
		s.Fatal(err)
	}
}

// render returns what Kustomize makes of a folder.
func (s *space) render(folder string) []*unstructured.Unstructured {
	s.Helper()
	objects, err := install.Renderer(filepath.Join(binaries, "render")).Objects(s.Context(), "kustomize", folder)
	if err != nil {
		s.Fatal(err)
	}
	return objects
}

// applyOthers applies the objects of all kinds but one.
func (s *space) applyOthers(objects []*unstructured.Unstructured, kind string) {
	s.Helper()
	applier, err := install.NewApplier(plane.Config())
	if err != nil {
		s.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == kind {
			continue
		}
		if err := applier.Apply(s.Context(), object); err != nil {
			s.Fatal(err)
		}
	}
}

// address is where pods reach the machine.
func (s *space) address() string {
	s.Helper()
	object, err := client.CoreV1().Nodes().Get(s.Context(), node.Name(), metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	i := slices.IndexFunc(object.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	return object.Status.Addresses[i].Address
}

// forward connects those who connect to a port of the machine with the API server, which has the loopback address only. It
// stands for the Service of a cluster.
func (s *space) forward() (port string) {
	s.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(s.address(), "0"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = listener.Close() })
	to := strings.TrimPrefix(plane.Address(), "https://")
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() { _, _ = io.Copy(server, client); _ = server.(*net.TCPConn).CloseWrite() }()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	return port
}

// published is how many devices the agent has published.
func (s *space) published() int {
	list, err := client.ResourceV1().ResourceSlices().List(s.Context(), metav1.ListOptions{FieldSelector: "spec.driver=" + pci})
	if err != nil {
		return -1
	}
	count := 0
	for _, slice := range list.Items {
		count += len(slice.Spec.Devices)
	}
	return count
}

// awaitAgent waits until one pod of the DaemonSet is left, and is ready. It is another one than the one before.
func (s *space) awaitAgent(daemons *appsv1.DaemonSet, before types.UID) (found types.UID) {
	s.Helper()
	until(s.T, "there is one agent, which is ready", func() bool {
		list, err := client.CoreV1().Pods(daemons.Namespace).List(s.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(daemons.Spec.Selector)})
		if err != nil || len(list.Items) != 1 || !isReady(&list.Items[0]) {
			return false
		}
		found = list.Items[0].UID
		return found != before
	})
	return found
}

// during looks for so long whether something stays true.
func during(t *testing.T, duration time.Duration, what string, ask func() bool) {
	t.Helper()
	for deadline := time.Now().Add(duration); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if !ask() {
			t.Fatalf("not for %v: %s", duration, what)
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

func (s *space) patch(daemons *appsv1.DaemonSet, text string) {
	s.Helper()
	if _, err := client.AppsV1().DaemonSets(daemons.Namespace).Patch(s.Context(), daemons.Name, types.MergePatchType, []byte(strings.TrimSpace(text)), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}
