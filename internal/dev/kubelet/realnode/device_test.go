// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// drives are NVMe drives that the test makes up. In place of each, this machine gets /dev/zero under its name.
var drives = []string{"nvme907", "nvme908"}

// lookAround says which of the drives a container has, and reads from them.
const lookAround = `cd /dev; for d in nvme90*; do [ -e $d ] && echo "$d $(stat -c %F $d) $(head -c 2 $d | od -An -tx1)"; done; echo over`

// drivePods have a drive each: by a claim, and from the device plugin.
var drivePods = map[string]string{
	"claimed": `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: drive}
spec: {devices: {requests: [{name: drive, exactly: {deviceClassName: drive}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: claimed}
spec:
  restartPolicy: Never
  resourceClaims: [{name: drive, resourceClaimName: drive}]
  containers:
  - {name: main, command: [sh, -c, '` + lookAround + `; sleep inf'], resources: {claims: [{name: drive}]}}
  - {name: other, command: [sh, -c, '` + lookAround + `']}
`,
	"plugged": `
apiVersion: v1
kind: Pod
metadata: {name: plugged}
spec:
  restartPolicy: Never
  containers:
  - {name: main, command: [sh, -c, '` + lookAround + `; sleep inf'], resources: {limits: {pci.example.com/nvme: 1}}}
  - {name: other, command: [sh, -c, '` + lookAround + `']}
`,
}

// TestDeviceNodes has containers read from device nodes that their claim or the device plugin gives them, and no
// other container of the pod see them. The devices are found in sysfs.
func TestDeviceNodes(t *testing.T) {
	s := newSpace(t)
	startDrives(t)
	object := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "drive"}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "pci.example.com" && device.attributes["pci.example.com"].type == "nvme"`},
	}}}}
	_, err := client.ResourceV1().DeviceClasses().Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := client.ResourceV1().DeviceClasses().Delete(context.Background(), object.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	has := make(map[string]string)
	for name, text := range drivePods {
		s.create(text)
		s.await(name, corev1.PodRunning)
		for _, container := range []string{"main", "other"} {
			until(t, name+" has looked around", func() bool {
				text, err := client.CoreV1().Pods(s.name).GetLogs(name, &corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
				has[name+"/"+container] = string(text)
				return err == nil && strings.HasSuffix(string(text), "over\n")
			})
		}
	}
	seen := func(drive string) string {
		const node = "%s%s character special file  00 00\n"
		return fmt.Sprintf(node+node+"over\n", drive, "", drive, "n1")
	}
	first, second := has["claimed/main"], has["plugged/main"]
	if got, want := []string{min(first, second), max(first, second)}, []string{seen(drives[0]), seen(drives[1])}; !slices.Equal(got, want) {
		t.Errorf("the pods have %q, want %q", got, want)
	}
	for _, name := range []string{"claimed/other", "plugged/other"} {
		if has[name] != "over\n" {
			t.Errorf("%s has %q", name, has[name])
		}
	}
	for name := range drivePods {
		s.delete(name)
	}
	s.mustLeaveNothing()
}

// startDrives starts an agent that finds the drives.
func startDrives(t *testing.T) {
	t.Helper()
	root := t.TempDir()
	for i, drive := range drives {
		address := fmt.Sprintf("0000:0%d:00.0", i+1)
		device := filepath.Join("sys/devices/pci0000:00", address)
		for path, content := range map[string]string{
			"class": "0x010802", "vendor": "0x15b3", "device": "0x1021",
			filepath.Join("nvme", drive, "state"): "live", filepath.Join("nvme", drive, drive+"n1", "size"): "2048",
		} {
			file := filepath.Join(root, device, path)
			must(t, os.MkdirAll(filepath.Dir(file), 0o750))
			must(t, os.WriteFile(file, []byte(content+"\n"), 0o600))
		}
		for link, target := range map[string]string{
			"sys/bus/pci/devices/" + address: "../../../devices/pci0000:00/" + address,
			device + "/driver":               "../../../bus/pci/drivers/nvme",
		} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o750))
			must(t, os.Symlink(target, filepath.Join(root, link)))
		}
		for _, name := range []string{drive, drive + "n1"} {
			path := "/dev/" + name
			must(t, syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5))
			t.Cleanup(func() { must(t, os.Remove(path)) })
		}
	}
	must(t, os.MkdirAll(filepath.Join(root, "sys/bus/pci/drivers/nvme"), 0o750))
	program, err := filepath.Abs(filepath.Join(binaries, "dray-agent"))
	must(t, err)
	drivesAgent, err := node.Launch("dray-agent-drives", program, "run", "--sysfs="+root, "--driver=pci.example.com", "--node-name="+node.Name(),
		"--kubeconfig="+plane.Kubeconfig(), "--listen=")
	must(t, err)
	t.Cleanup(func() { must(t, drivesAgent.Stop()) })
}
