// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// cniFolder is where Debian has the plugins of containernetworking-plugins.
const cniFolder = "/usr/lib/cni"

// busybox is the program that images have.
const busybox = "/bin/busybox"

// missing says what a node needs and the machine does not have.
func missing(binaries string) error {
	var failures []error
	if os.Geteuid() != 0 {
		failures = append(failures, errors.New("kubelet and containerd must be started by root"))
	}
	for _, name := range []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr"} {
		if _, err := os.Stat(filepath.Join(binaries, name)); err != nil {
			failures = append(failures, fmt.Errorf("%w: make kubelet-programs builds it", err))
		}
	}
	for name, of := range map[string]string{"runc": "runc", "unshare": "util-linux", "nsenter": "util-linux"} {
		if _, err := exec.LookPath(name); err != nil {
			failures = append(failures, fmt.Errorf("%w: Debian's package %s has it", err, of))
		}
	}
	for path, of := range map[string]string{cniFolder + "/ptp": "containernetworking-plugins", busybox: "busybox-static"} {
		if _, err := os.Stat(path); err != nil {
			failures = append(failures, fmt.Errorf("%w: Debian's package %s has it", err, of))
		}
	}
	return errors.Join(failures...)
}

// nodeFeatures are gates of controlplane.DeviceFeatures that kubelet has.
func nodeFeatures(own map[string]bool) string {
	gates := controlplane.DeviceFeatures()
	maps.Copy(gates, own)
	var settings []string
	for gate, on := range gates {
		settings = append(settings, fmt.Sprintf("%s: %t", gate, on))
	}
	return strings.Join(settings, ", ")
}

// values are what the files of a node differ in.
type values struct {
	Name, Folder, CNI, Cgroup, Authority, Features, Pause string
	Port, Third                                           int
}

// write writes what containerd, its network and kubelet read.
func (n *Node) write(options Options) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	v := values{
		Name: n.name, Folder: n.folder, CNI: cniFolder, Cgroup: n.cgroup(), Authority: filepath.Join(n.plane.Folder(), "ca.crt"),
		Features: nodeFeatures(options.Features), Pause: pause, Port: port, Third: port % 256,
	}
	for name, text := range map[string]string{"containerd.toml": containerdFile, "net/10-ptp.conflist": networkFile, "kubelet.yaml": kubeletFile, "resolv.conf": "", "static/none": ""} {
		if err := os.MkdirAll(filepath.Dir(n.file(name)), 0o755); err != nil {
			return err
		}
		if name == "static/none" { // the folder of static pods is empty
			continue
		}
		if err := writeWith(n.file(name), func(out io.Writer) error { return template.Must(template.New(name).Parse(text)).Execute(out, v) }); err != nil {
			return err
		}
	}
	return nil
}

func writeWith(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// containerdFile has restrict_oom_score_adj, since containers of tests may not have CAP_SYS_RESOURCE.
const containerdFile = `version = 3
root = '{{.Folder}}/root'
state = '/run/containerd/state'
[grpc]
  address = '/run/containerd/containerd.sock'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Pause}}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.CNI}}']
    conf_dir = '{{.Folder}}/net'
`

// networkFile gives pods addresses at which only the machine reaches them.
const networkFile = `{"cniVersion": "1.0.0", "name": "{{.Name}}", "plugins": [{"type": "ptp", "ipMasq": false, "ipam": {
  "type": "host-local", "ranges": [[{"subnet": "10.251.{{.Third}}.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]
}}]}
`

const kubeletFile = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: {{.Port}}
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: '{{.Authority}}'}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: '{{.Cgroup}}'
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {}
imageGCHighThresholdPercent: 100
enforceNodeAllocatable: []
nodeStatusUpdateFrequency: 2s
resolvConf: '{{.Folder}}/resolv.conf'
clusterDomain: cluster.local
staticPodPath: '{{.Folder}}/static'
featureGates: { {{.Features}} }
`
