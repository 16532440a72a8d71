// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import corev1 "k8s.io/api/core/v1"

// Pod is a Pod, as simulate and the scheduler's plugin read it.
var Pod = root[corev1.Pod]("Pod", typed(join([]Row{
	{Path: "Spec.ResourceClaims[]", Role: Ask, By: "which claims the pod needs"},
	{Path: "Spec.NodeSelector[]", Role: Ask, By: "nodefit"},
	{Path: "Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution", Role: Ask, By: "nodefit"},
	{Path: "Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution", Role: Ignore, Why: preference},
	{Path: "Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution", Role: Ask, By: notLookedAt},
	{Path: "Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution", Role: Ignore, Why: preference},
	{Path: "Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution", Role: Ask, By: notLookedAt},
	{Path: "Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution", Role: Ignore, Why: preference},
	{Path: "Spec.Tolerations[]", Role: Ask, By: "nodefit"},
	{Path: "Spec.TopologySpreadConstraints[]", Role: Ask, By: notLookedAt},
	{Path: "Spec.Volumes[]", Role: Ask, By: notLookedAt},
	{Path: "Spec.SchedulingGates[]", Role: Ask, By: notLookedAt},
	{Path: "Spec.SchedulerName", Role: Ask, By: notLookedAt},
	{Path: "Spec.HostNetwork", Role: Ask, By: notLookedAt + ": host ports"},
	{Path: "Spec.Overhead[]", Role: Ask, By: resources},
	{Path: "Spec.Resources.Requests[]", Role: Ask, By: resources},
	{Path: "Spec.Resources.Limits[]", Role: Ignore, Why: defaulted},
	{Path: "Spec.Resources.Claims[]", Role: Ignore, Why: "which containers use a claim is for kubelet"},
	{Path: "Spec.NodeName", Role: Position, Why: "a pod that has a node is no question, but takes what it has"},
	{Path: "Spec.Priority", Role: Position, Why: "who may evict whom; nodes and devices are the same for all"},
	{Path: "Spec.PreemptionPolicy", Role: Position, Why: "who may evict whom; nodes and devices are the same for all"},
	{Path: "Spec.PriorityClassName", Role: Ignore, Why: "spec.priority says it"},
	{Path: "Spec.SchedulingGroup", Role: Position, Why: "which pods are placed together; a question is about one"},
	{Path: "Spec.EphemeralContainers[]", Role: Ignore, Why: "they have no requests"},
	{Path: "Spec.RestartPolicy", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.TerminationGracePeriodSeconds", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.ActiveDeadlineSeconds", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.DNSPolicy", Role: Ignore, Why: networking},
	{Path: "Spec.DNSConfig", Role: Ignore, Why: networking},
	{Path: "Spec.Hostname", Role: Ignore, Why: networking},
	{Path: "Spec.HostnameOverride", Role: Ignore, Why: networking},
	{Path: "Spec.Subdomain", Role: Ignore, Why: networking},
	{Path: "Spec.SetHostnameAsFQDN", Role: Ignore, Why: networking},
	{Path: "Spec.HostAliases[]", Role: Ignore, Why: networking},
	{Path: "Spec.ServiceAccountName", Role: Ignore, Why: "for the API server"},
	{Path: "Spec.DeprecatedServiceAccount", Role: Ignore, Why: "for the API server"},
	{Path: "Spec.AutomountServiceAccountToken", Role: Ignore, Why: "for the API server"},
	{Path: "Spec.ImagePullSecrets[]", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.HostPID", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.HostIPC", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.HostUsers", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.ShareProcessNamespace", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.SecurityContext", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.ReadinessGates[]", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.RuntimeClassName", Role: Ignore, Why: "admission writes what it means for scheduling into overhead, nodeSelector and tolerations"},
	{Path: "Spec.EnableServiceLinks", Role: Ignore, Why: "for kubelet"},
	{Path: "Spec.OS", Role: Ignore, Why: "for kubelet; pods select nodes by their labels"},
	{Path: "Spec.EvictionResponders[]", Role: Ignore, Why: "for who evicts pods"},
	{Path: "Status", Role: Position, Why: "claims and resources that a pod has already are found out before anything is asked"},
}, container("Spec.Containers[]", Row{Role: Ignore, Why: "for kubelet"}), container("Spec.InitContainers[]", Row{Role: Ask, By: resources + ": a sidecar's requests are added"}))))

const (
	preference  = "a preference among nodes, which is not for devices"
	resources   = "resources, extended ones among them"
	defaulted   = "the API server writes requests after them"
	notLookedAt = "nodefit.NotLookedAt"
)

// container returns the rows of a container. restarts is the row of its restart policy.
func container(path string, restarts Row) (rows []Row) {
	restarts.Path = "RestartPolicy"
	rows = []Row{
		{Path: "Name", Role: Position, Why: "results for extended resources name it"},
		{Path: "Resources.Requests[]", Role: Ask, By: resources},
		{Path: "Resources.Limits[]", Role: Ignore, Why: defaulted},
		{Path: "Resources.Claims[]", Role: Ignore, Why: "which containers use a claim is for kubelet"},
		{Path: "Ports[]", Role: Ask, By: notLookedAt + ": host ports"},
		restarts,
	}
	for _, field := range []string{
		"Image", "Command[]", "Args[]", "WorkingDir", "EnvFrom[]", "Env[]", "ResizePolicy[]", "RestartPolicyRules[]", "VolumeMounts[]", "VolumeDevices[]",
		"LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle", "TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy",
		"SecurityContext", "Stdin", "StdinOnce", "TTY",
	} {
		rows = append(rows, Row{Path: field, Role: Ignore, Why: "for kubelet"})
	}
	for i := range rows {
		rows[i].Path = path + "." + rows[i].Path
	}
	return rows
}
