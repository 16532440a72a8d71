// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// Plan is what a supervisor is to run. It is written before the supervisor starts, and not
// changed.
type Plan struct {
	// Pod is what the plan was made of.
	Pod *corev1.Pod `json:"pod"`
	// Hostname is that of the pod. It is the machine's if HostNetwork is set.
	Hostname string `json:"hostname"`
	// HostNetwork says that the pod has the machine's network. Without, it has a loopback
	// interface of its own and no other.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// LogFolder is where each container has a folder for its logs.
	LogFolder string `json:"logFolder"`
	// Group is the path of the pod's control group. It is empty if there is none, and there are
	// no limits then.
	Group string `json:"group,omitempty"`
	// Limits are those of the pod.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Volumes are folders that containers mount.
	Volumes []Volume `json:"volumes,omitempty"`
	// Inits and Containers are those of the pod, in its order.
	Inits      []Container `json:"inits,omitempty"`
	Containers []Container `json:"containers"`
}

// Volume is an empty folder, which goes with the pod.
type Volume struct {
	Name string `json:"name"`
	// Memory says that the files are in memory. They are there as long as the supervisor.
	Memory bool `json:"memory,omitempty"`
	// Size is how much a volume in memory may have, in bytes. 0 stands for half of the
	// machine's memory.
	Size int64 `json:"size,omitempty"`
	// Group is the group of the folder and of what is made in it; nil: root's.
	Group *uint32 `json:"group,omitempty"`
	// Mode is the permissions of the folder.
	Mode uint32 `json:"mode"`
}

// Container is what to run for a container.
type Container struct {
	Name     string   `json:"name"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir,omitempty"`
	Identity Identity `json:"identity"`
	// ReadOnly says that no file can be written, but for those in /dev/shm and in volumes.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Limits are those of the container.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Mounts are the volumes that the container has.
	Mounts []Mount `json:"mounts,omitempty"`
	// Grouped says that the command belongs into a control group, which the init gets.
	Grouped bool `json:"grouped,omitempty"`
}

// Mount is where a container has a volume.
type Mount struct {
	Folder   string `json:"folder"` // of the volume
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Identity is as whom a process runs.
type Identity struct {
	User   uint32   `json:"user"`
	Group  uint32   `json:"group"`
	Groups []uint32 `json:"groups,omitempty"`
}

// State is how the containers of a pod are. The supervisor writes it when it changes.
type State struct {
	Began      metav1.Time              `json:"began"`
	Inits      []corev1.ContainerStatus `json:"inits,omitempty"`
	Containers []corev1.ContainerStatus `json:"containers"`
	// Supervisors is how many the pod had before this one.
	Supervisors int `json:"supervisors,omitempty"`
	// Events are the latest that there were, oldest first.
	Events []Event `json:"events,omitempty"`
	// Over says that none of them will run again.
	Over bool `json:"over,omitempty"`
}

// Event is something that people may want to know about a container.
type Event struct {
	// Number counts the events of the pod, from 1.
	Number int64 `json:"number"`
	// Field is which container it is about, as a field of the pod.
	Field   string `json:"field"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// maxEvents is how many events a state has.
const maxEvents = 20

// ending is by when a pod is to have ended.
type ending struct {
	Deadline time.Time `json:"deadline"`
}

// The files in the folder of a pod. Those of JSON are checkpoints.
const (
	planFile   = "plan.json"
	recordFile = "supervisor.json" // which process the supervisor is
	stateFile  = "state.json"
	endingFile = "ending.json"
	errorFile  = "supervisor.log" // what the supervisor says when it fails
	volumes    = "volumes"        // a folder, with one for each volume
)
