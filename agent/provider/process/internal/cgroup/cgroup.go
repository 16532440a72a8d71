// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgroup manages the cgroups (version 2) of pods, with their limits.
//
//	/sys/fs/cgroup/dray-pods/pod<UID>   the pod: its share of the CPU
//	  ├─ supervisor                     its supervisor and the inits of its containers
//	  └─ containers                     the limits of the pod
//	       └─ NAME                      the limits of a container
//
// # Contract
//
// Cgroups are made if the hierarchy is unified (version 2), is mounted at /sys/fs/cgroup, and this
// process may make cgroups at its root. Check says what is missing. The cgroup of a pod exists from
// before its first process until Remove is called.
//
// The limits are those that kubelet and container runtimes set. The CPU quota has a period of 100
// ms and is at least 1 ms. There is no swap. The OOM killer ends all processes of a container
// together.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"
)

// Controllers that the limits need.
const (
	CPU    = "cpu"
	Memory = "memory"
)

// Top is the root of the cgroup hierarchy.
const Top = fs2.UnifiedMountpoint

// ours is the parent of the cgroups of all pods.
const ours = Top + "/dray-pods"

// Processes is the file of a cgroup to which a process writes 0 to join it.
const Processes = "cgroup.procs"

// Limits are the resources of a cgroup. 0 stands for no limit.
type Limits struct {
	// CPU is the limit in thousandths of a CPU.
	CPU int64 `json:"cpu,omitempty"`
	// CPURequest determines the CPU weight, in thousandths of a CPU.
	CPURequest int64 `json:"cpuRequest,omitempty"`
	// Memory is the limit in bytes.
	Memory int64 `json:"memory,omitempty"`
}

// Path returns the path of a pod's cgroup.
func Path(uid string) string { return filepath.Join(ours, "pod"+uid) }

// Supervisor returns the path of the cgroup of a pod's supervisor.
func Supervisor(pod string) string { return filepath.Join(pod, "supervisor") }

// Containers returns the path of the cgroup of all containers of a pod.
func Containers(pod string) string { return filepath.Join(pod, "containers") }

// Container returns the path of a container's cgroup.
func Container(pod, name string) string { return filepath.Join(Containers(pod), name) }

// Check returns why cgroups with a controller cannot be made. An empty name stands for cgroups
// without controllers.
func Check(controller string) error {
	var mounted unix.Statfs_t
	if err := unix.Statfs(Top, &mounted); err != nil || mounted.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not cgroup v2", Top)
	}
	if err := fs2.CreateCgroupPath(filepath.Join(ours, "check"), &cgroups.Cgroup{}); err != nil {
		return fmt.Errorf("no group can be made in %s, where dray-agent is to be root and to see the groups of the whole machine: %w", Top, err)
	}
	if controller == "" {
		return nil
	}
	for _, group := range []string{Top, filepath.Join(ours, "check")} {
		given, err := cgroups.ReadFile(group, "cgroup.controllers")
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Fields(given), controller) {
			return fmt.Errorf("%s does not have the controller %s", group, controller)
		}
	}
	return nil
}

// Make makes a cgroup if it does not exist, and sets its limits.
func Make(path string, limits Limits) error {
	resources := limits.resources()
	if err := fs2.CreateCgroupPath(path, &cgroups.Cgroup{Resources: resources}); err != nil {
		return fmt.Errorf("group %s: %w", path, err)
	}
	if err := set(path, resources); err != nil {
		return fmt.Errorf("group %s: %w", path, err)
	}
	return nil
}

func set(path string, resources *cgroups.Resources) error {
	manager, err := fs2.NewManager(&cgroups.Cgroup{}, path)
	if err != nil {
		return err
	}
	return manager.Set(resources)
}

const (
	period         = 100_000 // of quotas, in microseconds
	leastQuota     = 1_000   // in microseconds
	sharesPerCPU   = 1024    // of cgroup v1, from which weights are computed
	leastShares    = 2
	milliCPUPerCPU = 1000
)

// resources converts the limits to the kernel's units.
func (l Limits) resources() *cgroups.Resources {
	out := &cgroups.Resources{}
	if l.CPU > 0 {
		out.CpuPeriod, out.CpuQuota = period, max(l.CPU*period/milliCPUPerCPU, leastQuota)
	}
	if l.CPURequest > 0 {
		out.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(uint64(max(l.CPURequest*sharesPerCPU/milliCPUPerCPU, leastShares)))
	}
	if l.Memory > 0 {
		out.Memory, out.MemorySwap = l.Memory, l.Memory // equal limits for memory alone and memory with swap: no swap
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return out
}

// OOMKills returns how many processes of a cgroup the OOM killer ended. It is 0 if the cgroup does
// not exist, or has no memory controller.
func OOMKills(path string) (uint64, error) {
	kills, err := fs2.OOMKillCount(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return kills, err
}

// Kill sends SIGKILL to all processes of a cgroup and its descendants.
func Kill(path string) error {
	err := cgroups.WriteFile(path, "cgroup.kill", "1")
	if errors.Is(err, os.ErrNotExist) { // no such cgroup, or a kernel before 5.14
		return nil
	}
	return err
}

// Remove kills the processes of a cgroup and its descendants, and removes all of them.
func Remove(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(Kill(path), cgroups.RemovePath(path))
}
