// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the roots. Pod is in pod.go.
var (
	// Meta is the metadata of all objects.
	Meta = root[metav1.ObjectMeta]("ObjectMeta", []Row{
		{Path: "Name", Role: Position, Why: "answers are told by position; of slices it is the order"},
		{Path: "Namespace", Role: Position, Why: "part of the name"},
		{Path: "UID", Role: Position, Why: "part of the name"},
		{Path: "Labels", Role: Reach, Why: "those of nodes decide which slices select them; views of nodes have that already"},
		{Path: "CreationTimestamp", Role: Position, Why: "of classes of one extended resource the newest counts; keys have the class that was chosen"},
		{Path: "DeletionTimestamp", Role: Position, Why: "claims that are being deleted are sorted out before anything is asked"},
		{Path: "GenerateName", Role: Ignore, Why: "means nothing once there is a name"},
		{Path: "SelfLink", Role: Ignore, Why: "not set any more"},
		{Path: "ResourceVersion", Role: Ignore, Why: "the content is compared"},
		{Path: "Generation", Role: Ignore, Why: "the content is compared"},
		{Path: "DeletionGracePeriodSeconds", Role: Ignore, Why: "kubelet's"},
		{Path: "Annotations", Role: Ignore, Why: "no rule of allocation reads them; what extensions ask for is given as extension.Claim"},
		{Path: "OwnerReferences", Role: Ignore, Why: "who owns what is found out before anything is asked"},
		{Path: "Finalizers", Role: Ignore, Why: "the API server's"},
		{Path: "ManagedFields", Role: Ignore, Why: "the API server's"},
	})
	// Slice is a ResourceSlice without its devices.
	Slice = root[resourceapi.ResourceSlice]("ResourceSlice", typed(append([]Row{
		{Path: "Spec.Driver", Role: Select | Position, By: "selectors; which claims hold its devices"},
		{Path: "Spec.Pool.Name", Role: Position, Why: "part of the name of devices"},
		{Path: "Spec.Pool.Generation", Role: Reach, Why: "decides which slices make the pool; views have that pool"},
		{Path: "Spec.Pool.ResourceSliceCount", Role: Gate, By: "whether the pool is complete"},
		{Path: "Spec.NodeName", Role: Reach | Result, Why: "views of nodes have the devices that reach them; results name the node at hand"},
		{Path: "Spec.AllNodes", Role: Reach, Why: "views of nodes have the devices that reach them"},
		{Path: "Spec.PerDeviceNodeSelection", Role: Reach, Why: "views of nodes have the devices that reach them"},
		{Path: "Spec.Devices[]", Role: Position, Why: "Device has rows of its own; the order is that of first fit"},
		{Path: "Spec.SharedCounters[].Name", Role: Position | Gate, By: "which set a device draws on; by position"},
		{Path: "Spec.SharedCounters[].Counters[].Value", Role: Amount, By: "counters (KEP-4815)"},
		{Path: "Spec.PartitionTypeAttribute", Role: Ignore, Why: "tells people which devices are of one kind; kube-scheduler does not read it"},
		{Path: "Spec.SkipNodeOperations[]", Role: Gate | Result, By: "the node must declare that it can skip them"},
	}, selector("Spec.NodeSelector", Reach|Result)...)))
	// Device is a device of a slice.
	Device = root[resourceapi.Device]("Device", join([]Row{
		{Path: "Name", Role: Position, Why: "answers are told by position"},
		{Path: "Capacity[].Value", Role: Select | Amount, By: "selectors; shares and totals; policies"},
		{Path: "Capacity[].RequestPolicy.Default", Role: Amount, By: "what a share takes if nothing is asked for (KEP-5075)"},
		{Path: "Capacity[].RequestPolicy.ValidValues[]", Role: Amount, By: "what a share may take"},
		{Path: "Capacity[].RequestPolicy.ValidRange.Min", Role: Amount, By: "what a share may take"},
		{Path: "Capacity[].RequestPolicy.ValidRange.Max", Role: Amount, By: "what a share may take"},
		{Path: "Capacity[].RequestPolicy.ValidRange.Step", Role: Amount, By: "what a share may take"},
		{Path: "ConsumesCounters[].CounterSet", Role: Amount, By: "counters (KEP-4815)"},
		{Path: "ConsumesCounters[].Counters[].Value", Role: Amount, By: "counters (KEP-4815)"},
		{Path: "ConsumesCounters[].CompatibilityGroups[]", Role: Gate, By: "compatibility groups: which devices go together"},
		{Path: "NodeName", Role: Reach | Result, Why: "views of nodes have the devices that reach them"},
		{Path: "AllNodes", Role: Reach, Why: "views of nodes have the devices that reach them"},
		{Path: "Taints[].Key", Role: Gate, By: "tolerations (KEP-5055)"},
		{Path: "Taints[].Value", Role: Gate, By: "tolerations (KEP-5055)"},
		{Path: "Taints[].Effect", Role: Gate, By: "tolerations (KEP-5055)"},
		{Path: "Taints[].TimeAdded", Role: Ignore, Why: "when a taint was added matters to those who evict pods"},
		{Path: "BindsToNode", Role: Gate | Result, By: "a result that is tied to its node needs no node selector, so that selectors are not checked"},
		{Path: "BindingConditions[]", Role: Gate | Result, By: "refused without the feature; only whether there are any"},
		{Path: "BindingFailureConditions[]", Role: Result, Why: "repeated in results"},
		{Path: "AllowMultipleAllocations", Role: Select | Gate, By: "selectors; shares (KEP-5075)"},
		{Path: "NodeAllocatableResources", Role: Ignore, Why: "what of a node's resources a device takes is for who binds the pod"},
	}, attribute("Attributes[]"), selector("NodeSelector", Reach|Result)))
	// Claim is a ResourceClaim.
	Claim = root[resourceapi.ResourceClaim]("ResourceClaim", typed(join([]Row{
		{Path: "Spec.Devices.Requests[].Name", Role: Position | Result, Why: "results name requests, and constraints refer to them; keys have what they cover"},
		{Path: "Spec.Devices.Requests[].Exactly.AdminAccess", Role: Ask, By: "whether devices in use are taken, too (KEP-5018)"},
		{Path: "Spec.Devices.Requests[].FirstAvailable[].Name", Role: Position | Result, Why: "as that of requests"},
		{Path: "Spec.Devices.Constraints[].Requests[]", Role: Ask, By: "which requests a constraint covers"},
		{Path: "Spec.Devices.Constraints[].MatchAttribute", Role: Ask, By: "constraints"},
		{Path: "Spec.Devices.Constraints[].DistinctAttribute", Role: Ask, By: "constraints"},
		{Path: "Spec.Devices.Config[]", Role: Result, Why: "for drivers, repeated in results"},
		{Path: "Status.Allocation.Devices.Results[].Request", Role: Ignore, Why: "who asked for what is in use is for its owner"},
		{Path: "Status.Allocation.Devices.Results[].Driver", Role: Position, Why: "which device is in use: the state that is asked about"},
		{Path: "Status.Allocation.Devices.Results[].Pool", Role: Position, Why: "which device is in use: the state that is asked about"},
		{Path: "Status.Allocation.Devices.Results[].Device", Role: Position, Why: "which device is in use: the state that is asked about"},
		{Path: "Status.Allocation.Devices.Results[].AdminAccess", Role: Position, Why: "with it nothing is in use: the state that is asked about"},
		{Path: "Status.Allocation.Devices.Results[].ShareID", Role: Position, Why: "whether a share or all is in use: the state that is asked about"},
		{Path: "Status.Allocation.Devices.Results[].ConsumedCapacity[]", Role: Position, Why: "how much is in use: the state that is asked about"},
		{Path: "Status.Allocation.Devices.Results[].BindingConditions[]", Role: Ignore, Why: "for who binds the pod"},
		{Path: "Status.Allocation.Devices.Results[].BindingFailureConditions[]", Role: Ignore, Why: "for who binds the pod"},
		{Path: "Status.Allocation.Devices.Results[].SkipNodeOperations[]", Role: Ignore, Why: "for kubelet"},
		{Path: "Status.Allocation.Devices.Results[].Tolerations[]", Role: Ignore, Why: "for who evicts pods"},
		{Path: "Status.Allocation.Devices.Config[]", Role: Ignore, Why: "for drivers"},
		{Path: "Status.Allocation.NodeSelector", Role: Reach, Why: "where an allocated claim can be used is found out before devices are"},
		{Path: "Status.Allocation.AllocationTimestamp", Role: Ignore, Why: "for people"},
		{Path: "Status.ReservedFor[]", Role: Reach, Why: "who may use an allocated claim is found out before devices are"},
		{Path: "Status.Devices[]", Role: Ignore, Why: "what drivers say of devices in use is for people, and for who binds the pod"},
	}, request("Spec.Devices.Requests[].Exactly"), request("Spec.Devices.Requests[].FirstAvailable[]"))))
	// Class is a DeviceClass.
	Class = root[resourceapi.DeviceClass]("DeviceClass", typed([]Row{
		{Path: "Spec.Selectors[].CEL.Expression", Role: Ask, By: "selectors"},
		{Path: "Spec.Config[]", Role: Result, Why: "for drivers, repeated in results"},
		{Path: "Spec.ExtendedResourceName", Role: Ask, By: "which class serves an extended resource (KEP-5004)", Only: Simulate},
	}))
	// Toleration is a toleration of a request.
	Toleration = root[resourceapi.DeviceToleration]("DeviceToleration", []Row{
		{Path: "Key", Role: Ask | Result, By: "taints"},
		{Path: "Operator", Role: Ask | Result, By: "taints"},
		{Path: "Value", Role: Ask | Result, By: "taints"},
		{Path: "Effect", Role: Ask | Result, By: "taints"},
		{Path: "TolerationSeconds", Role: Result, Why: "matters to those who evict pods"},
	})
	// Node is a Node.
	Node = root[corev1.Node]("Node", typed([]Row{
		{Path: "Status.DeclaredFeatures[]", Role: Gate, By: "devices that skip node operations"},
		{Path: "Status.Allocatable[]", Role: Amount, By: "how many pods fit by resources", Only: Simulate},
		{Path: "Spec.Unschedulable", Role: Gate, By: "nodefit", Only: Simulate},
		{Path: "Spec.Taints[]", Role: Gate, By: "nodefit", Only: Simulate},
		{Path: "Spec.PodCIDR", Role: Ignore, Why: networking},
		{Path: "Spec.PodCIDRs[]", Role: Ignore, Why: networking},
		{Path: "Spec.ProviderID", Role: Ignore, Why: "for cloud controllers"},
		{Path: "Spec.ConfigSource", Role: Ignore, Why: "not used any more"},
		{Path: "Spec.DoNotUseExternalID", Role: Ignore, Why: "not used any more"},
		{Path: "Spec.PodPreemptionPolicy", Role: Ignore, Why: "for kubelet"},
		{Path: "Status.Capacity[]", Role: Ignore, Why: "what of it pods may have is in allocatable"},
		{Path: "Status.Phase", Role: Ignore, Why: "not used any more"},
		{Path: "Status.Conditions[]", Role: Ignore, Why: "those that count are taints, too"},
		{Path: "Status.Addresses[]", Role: Ignore, Why: networking},
		{Path: "Status.DaemonEndpoints", Role: Ignore, Why: networking},
		{Path: "Status.NodeInfo", Role: Ignore, Why: "what of it pods select is in labels"},
		{Path: "Status.Images[]", Role: Ignore, Why: "a preference among nodes, which is not for devices"},
		{Path: "Status.VolumesInUse[]", Role: Ignore, Why: volumes},
		{Path: "Status.VolumesAttached[]", Role: Ignore, Why: volumes},
		{Path: "Status.Config", Role: Ignore, Why: "not used any more"},
		{Path: "Status.RuntimeHandlers[]", Role: Ignore, Why: "for kubelet"},
		{Path: "Status.Features", Role: Ignore, Why: "for kubelet"},
	}))
)

// Roots has all roots.
var Roots []*Root

// Simulate is the value of Row.Only for rows that the allocator does not read.
const Simulate = "simulate"

const (
	networking = "for networks"
	volumes    = "volumes are not looked at, and simulate says so"
)

// root makes a root and adds it to Roots.
func root[T any](name string, rows []Row) *Root {
	r := &Root{Name: name, Type: reflect.TypeFor[T](), Rows: rows}
	Roots = append(Roots, r)
	return r
}

func join(lists ...[]Row) (all []Row) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// typed adds the rows of the metadata that all objects have.
func typed(rows []Row) []Row {
	return append(rows,
		Row{Path: "TypeMeta.Kind", Role: Ignore, Why: "Go's type says it"},
		Row{Path: "TypeMeta.APIVersion", Role: Ignore, Why: "Go's type says it"},
		Row{Path: "ObjectMeta", Role: Position, Why: "ObjectMeta has rows of its own"})
}

// selector returns the rows of a node selector.
func selector(path string, role Role) (rows []Row) {
	for _, list := range []string{"MatchExpressions", "MatchFields"} {
		for _, field := range []string{"Key", "Operator", "Values[]"} {
			rows = append(rows, Row{
				Path: path + ".NodeSelectorTerms[]." + list + "[]." + field, Role: role,
				Why: "views of nodes have the devices that reach them; keys have whether there are several terms",
			})
		}
	}
	return rows
}

// attribute returns the rows of an attribute.
func attribute(path string) (rows []Row) {
	for _, kind := range []string{"Int", "Bool", "String", "Version"} {
		for _, field := range []string{"Value", "Values[]"} {
			rows = append(rows, Row{Path: path + "." + kind + field, Role: Select | Compare, By: "selectors, constraints, policies"})
		}
	}
	return rows
}

// request returns the rows of an exact request or a subrequest.
func request(path string) (rows []Row) {
	for _, r := range []Row{
		{Path: "DeviceClassName", By: "classes"},
		{Path: "Selectors[].CEL.Expression", By: "selectors"},
		{Path: "AllocationMode", By: "all devices, or a number"},
		{Path: "Count", By: "how many devices"},
		{Path: "Capacity.Requests[]", By: "what a share takes, and what a device must have"},
		{Path: "DerivedAttributes[].Name", By: "constraints that compare what is computed (KEP-6072)"},
		{Path: "DerivedAttributes[].Expression", By: "constraints that compare what is computed (KEP-6072)"},
	} {
		r.Path, r.Role = path+"."+r.Path, Ask
		rows = append(rows, r)
	}
	return append(rows, Row{Path: path + ".Tolerations[]", Role: Position, Why: "DeviceToleration has rows of its own; results repeat them in their order"})
}
