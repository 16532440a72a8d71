// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
)

// writeAs writes a CDI file of somebody else, and returns its path.
func (n *node) writeAs(name string, spec *cdispec.Spec) string {
	n.Helper()
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(n.cdi))
	if err == nil {
		spec.Version = "0.5.0"
		err = cache.WriteSpec(spec, name)
	}
	if err != nil {
		n.Fatal(err)
	}
	return filepath.Join(n.cdi, name)
}

// severalGPUs makes a spec with a device for each name.
func severalGPUs(names ...string) *cdispec.Spec {
	spec := gpuSpec(names[0], "/dev/other")
	for _, name := range names[1:] {
		spec.Devices = append(spec.Devices, gpuSpec(name, "/dev/other").Devices...)
	}
	return spec
}

// TestMigration: Intel's device plugin served the same devices before, and left the files
// of those that were allocated. Names of files are those of its writeCdiSpecToFilesystem.
func TestMigration(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	n.writeAs("intel.cdi.k8s.io-gpu-card0.yaml", severalGPUs("card0"))
	n.writeAs("intel.cdi.k8s.io-gpu-card1.yaml", severalGPUs("card1"))
	gone := n.writeAs("intel.cdi.k8s.io-gpu-card9.yaml", severalGPUs("card9")) // of a device that is not served
	n.serve().Notify(gpus(map[string]*cdispec.Spec{"card0-0": gpuSpec("card0", "/dev/card0"), "card1-0": gpuSpec("card1", "/dev/card1")}))
	n.sees(kubelet, gpu, "card0-0", "card1-0")
	for _, id := range []string{"card0-0", "card1-0"} {
		if _, err := kubelet.AllocateIDs(n.ctx, gpu, id); err != nil {
			t.Error(err)
		}
	}
	n.assertResolves("after the migration", map[string]string{cdiGPU + "card0": "/dev/card0", cdiGPU + "card1": "/dev/card1", cdiGPU + "card9": "/dev/other"})
	if _, err := os.Stat(gone); err != nil {
		t.Error(err)
	}
}

// TestFilesOfOthersAreInTheWay: it is said which file defines the device, too, and nothing is
// removed. When the file is gone, the device is allocated.
func TestFilesOfOthersAreInTheWay(t *testing.T) {
	for name, test := range map[string]struct {
		file  string
		names []string
	}{
		"another name":    {"vendor.json", []string{"card0"}},
		"another format":  {"intel.cdi.k8s.io-gpu-card0.json", []string{"card0"}},
		"another device":  {"intel.cdi.k8s.io-gpu-card1.yaml", []string{"card0"}},
		"several devices": {"intel.cdi.k8s.io-gpu-card0.yaml", []string{"card0", "card1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			kubelet := n.kubelet(fakekubelet.Options{})
			path := n.writeAs(test.file, severalGPUs(test.names...))
			n.serve().Notify(gpus(map[string]*cdispec.Spec{"0": gpuSpec("card0", "/dev/card0"), "5": gpuSpec("card5", "/dev/card5")}))
			n.sees(kubelet, gpu, "0", "5")
			want := "CDI device " + cdiGPU + "card0: " + path + " defines it, too"
			if _, err := kubelet.AllocateIDs(n.ctx, gpu, "0"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if _, err := kubelet.AllocateIDs(n.ctx, gpu, "5"); err != nil {
				t.Errorf("a device that nobody else defines: %v", err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := kubelet.AllocateIDs(n.ctx, gpu, "0"); err != nil {
				t.Errorf("when the file is gone: %v", err)
			}
		})
	}
}

// TestFileIsStillNeeded: Intel's plugin may still serve the device.
func TestFileIsStillNeeded(t *testing.T) {
	n := newNode(t)
	kubelet := n.kubelet(fakekubelet.Options{})
	path := n.writeAs("intel.cdi.k8s.io-gpu-card0.yaml", severalGPUs("card0"))
	listener, err := net.Listen("unix", filepath.Join(n.plugins, "example.com-nic.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	n.serve().Notify(gpus(map[string]*cdispec.Spec{"0": gpuSpec("card0", "/dev/card0")}))
	n.sees(kubelet, gpu, "0")
	if _, err := kubelet.AllocateIDs(n.ctx, gpu, "0"); err == nil || !strings.Contains(err.Error(), "another process serves devices of the same namespace") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
