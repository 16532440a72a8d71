package supervisor

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Containers are those of the pod, in its order.
	Containers []Container `json:"containers"`
}

// Container is what to run for a container.
type Container struct {
	Name     string   `json:"name"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir,omitempty"`
	Identity Identity `json:"identity"`
	// ReadOnly says that no file can be written, but for those in /dev/shm.
	ReadOnly bool `json:"readOnly,omitempty"`
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
	Containers []corev1.ContainerStatus `json:"containers"`
	// Over says that none of them will run again.
	Over bool `json:"over,omitempty"`
}

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
)
