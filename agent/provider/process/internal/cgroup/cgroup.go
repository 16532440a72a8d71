// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgroup gives pods control groups of version 2, with limits.
//
//	/sys/fs/cgroup/dray-pods/pod<UID>   the pod: its share of the CPU
//	  ├─ supervisor                     its supervisor and the inits of its containers
//	  └─ containers                     the limits of the pod
//	       └─ NAME                      the limits of a container
//
// # Contract
//
// Groups are made if the whole hierarchy is of version 2, is mounted where it always is, and
// this process may make groups at its top. Check says what is missing for limits. There is a
// group of a pod from before its first process until after its last, and Remove removes it.
//
// The limits are those that kubelet and the container runtimes set: quotas of 100 ms, at least
// 1 ms of CPU, no swap, and a container that is out of memory ends as a whole.
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

// The controllers that limits need.
const (
	CPU    = "cpu"
	Memory = "memory"
)

// Top is where groups are.
const Top = fs2.UnifiedMountpoint

// ours has the groups of all pods of this machine.
const ours = Top + "/dray-pods"

// Processes is the file of a group to which a process writes 0 to be in it.
const Processes = "cgroup.procs"

// Limits are what the processes of a group may use. 0 stands for no limit.
type Limits struct {
	// CPU is how much they may use, in thousandths of a CPU.
	CPU int64 `json:"cpu,omitempty"`
	// CPURequest is their share if others want the CPU, too, in thousandths of a CPU.
	CPURequest int64 `json:"cpuRequest,omitempty"`
	// Memory is in bytes.
	Memory int64 `json:"memory,omitempty"`
}

// Path is where the group of a pod is.
func Path(uid string) string { return filepath.Join(ours, "pod"+uid) }

// Supervisor is the group of a pod's supervisor.
func Supervisor(pod string) string { return filepath.Join(pod, "supervisor") }

// Containers is the group of all containers of a pod.
func Containers(pod string) string { return filepath.Join(pod, "containers") }

// Container is the group of a container of a pod.
func Container(pod, name string) string { return filepath.Join(Containers(pod), name) }

// Check says why groups cannot have a controller; an empty name stands for groups as such.
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

// Make makes a group, or finds it, and sets its limits.
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
	sharesPerCPU   = 1024    // of version 1, from which weights are computed
	leastShares    = 2
	milliCPUPerCPU = 1000
)

// resources are the limits in the kernel's units.
func (l Limits) resources() *cgroups.Resources {
	out := &cgroups.Resources{}
	if l.CPU > 0 {
		out.CpuPeriod, out.CpuQuota = period, max(l.CPU*period/milliCPUPerCPU, leastQuota)
	}
	if l.CPURequest > 0 {
		out.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(uint64(max(l.CPURequest*sharesPerCPU/milliCPUPerCPU, leastShares)))
	}
	if l.Memory > 0 {
		out.Memory, out.MemorySwap = l.Memory, l.Memory // together: no swap
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return out
}

// OOMKills is how many processes of a group the kernel ended because there was no memory for
// them. It is 0 if the group is not there, or has no limit of memory.
func OOMKills(path string) (uint64, error) {
	kills, err := fs2.OOMKillCount(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return kills, err
}

// Kill ends all processes of a group and of those in it at once.
func Kill(path string) error {
	err := cgroups.WriteFile(path, "cgroup.kill", "1")
	if errors.Is(err, os.ErrNotExist) { // the group, or a kernel before 5.14
		return nil
	}
	return err
}

// Remove removes a group and those in it, and ends what still runs there.
func Remove(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(Kill(path), cgroups.RemovePath(path))
}
