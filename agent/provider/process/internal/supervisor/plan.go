// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// Plan says what a supervisor runs. It is written before the supervisor starts, and does not
// change.
type Plan struct {
	// Pod is the pod as it was created.
	Pod *corev1.Pod `json:"pod"`
	// Hostname is the host name of the pod, or the machine's if HostNetwork is set.
	Hostname string `json:"hostname"`
	// HostNetwork says that the pod uses the machine's network. Otherwise it has only a loopback
	// interface.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// LogFolder has a folder for the logs of each container.
	LogFolder string `json:"logFolder"`
	// Group is the path of the pod's cgroup. If it is empty, there are no limits.
	Group string `json:"group,omitempty"`
	// Limits are the limits of the whole pod.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Volumes are folders that containers mount.
	Volumes []Volume `json:"volumes,omitempty"`
	// Inits and Containers are the containers of the pod, in the order of its spec.
	Inits      []Container `json:"inits,omitempty"`
	Containers []Container `json:"containers"`
}

// Volume is an emptyDir volume. It is removed with the pod.
type Volume struct {
	Name string `json:"name"`
	// Memory says that the volume is a tmpfs. Its content is lost when the supervisor ends.
	Memory bool `json:"memory,omitempty"`
	// Size is the size limit of a tmpfs, in bytes. 0 stands for half of the machine's memory.
	Size int64 `json:"size,omitempty"`
	// Group owns the folder and what is made in it (fsGroup). nil stands for root.
	Group *uint32 `json:"group,omitempty"`
	// Mode has the permissions of the folder.
	Mode uint32 `json:"mode"`
}

// Container says what to run for a container.
type Container struct {
	Name     string   `json:"name"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir,omitempty"`
	Identity Identity `json:"identity"`
	// ReadOnly makes all files read-only, except /dev/shm and volumes.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Limits are the limits of the container.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Mounts are the mounts of volumes.
	Mounts []Mount `json:"mounts,omitempty"`
	// Grouped says that the command runs in a cgroup, whose file the init gets.
	Grouped bool `json:"grouped,omitempty"`
}

// Mount is a mount of a volume in a container.
type Mount struct {
	Folder   string `json:"folder"` // of the volume
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Identity has the user and groups of a process.
type Identity struct {
	User   uint32   `json:"user"`
	Group  uint32   `json:"group"`
	Groups []uint32 `json:"groups,omitempty"`
}

// State is the state of a pod's containers. The supervisor writes it at each change.
type State struct {
	Began      metav1.Time              `json:"began"`
	Inits      []corev1.ContainerStatus `json:"inits,omitempty"`
	Containers []corev1.ContainerStatus `json:"containers"`
	// Supervisors counts the supervisors that the pod had before this one.
	Supervisors int `json:"supervisors,omitempty"`
	// Events are the latest events, oldest first.
	Events []Event `json:"events,omitempty"`
	// Over says that no container will be restarted.
	Over bool `json:"over,omitempty"`
}

// Event is an Event about a container, for the agent to record.
type Event struct {
	// Number counts the events of the pod, from 1.
	Number int64 `json:"number"`
	// Field is the container's field path in the pod.
	Field   string `json:"field"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// maxEvents is the maximum number of events in a state.
const maxEvents = 20

// ending is the content of endingFile: the time at which remaining processes are killed.
type ending struct {
	Deadline time.Time `json:"deadline"`
}

// Files in the folder of a pod. The JSON files are checkpoints.
const (
	planFile   = "plan.json"
	recordFile = "supervisor.json" // identifies the supervisor's process
	stateFile  = "state.json"
	endingFile = "ending.json"
	errorFile  = "supervisor.log" // the supervisor's standard error
	volumes    = "volumes"        // a folder, with a folder for each volume
)
