package resourceslice

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DriverResources is all that a controller publishes.
type DriverResources struct {
	// Pools are the driver's pools by name. Allocation visits pools with
	// binding conditions last, and otherwise goes by the name.
	Pools map[string]Pool
}

// Pool is a set of devices which are published together.
type Pool struct {
	// NodeSelector says which nodes have access to the devices. At most one of
	// NodeSelector, AllNodes and the slices' PerDeviceNodeSelection may be set,
	// and none in pools whose owner is a node.
	NodeSelector *v1.NodeSelector

	// AllNodes says that all nodes have access to the devices.
	AllNodes bool

	// Generation may be zero. The controller raises the published generation by
	// itself when it must, and to this one if this one is higher.
	Generation int64

	// Slices become one ResourceSlice each. A slice's position is the start of
	// its object's name, as a hexadecimal number. Allocation goes through slices
	// by name and through devices in their order, so what is preferred comes
	// first.
	//
	// Each slice must be valid by the rules of the API; Split makes valid slices
	// of any number of devices. The API server's errors go to the ErrorHandler.
	//
	// A pool which has no device at the moment is best published with one empty
	// slice: this shows that its driver is running.
	Slices []Slice
}

// Slice is what the driver decides about one ResourceSlice. The fields are those
// of resourceapi.ResourceSliceSpec.
type Slice struct {
	Devices                []resourceapi.Device
	SharedCounters         []resourceapi.CounterSet
	PerDeviceNodeSelection *bool
	PartitionTypeAttribute *resourceapi.FullyQualifiedName
	SkipNodeOperations     []resourceapi.SkipNodeOperation
}

// Owner is what the ResourceSlices name as their owner: they are garbage when it
// is gone. It must be cluster-scoped.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	// UID may be empty for a node. The controller then looks it up, and again after a
	// slice was deleted: the node may be another one under the same name.
	UID types.UID
}

// isNode tells whether the owner is a v1.Node.
func (in *Owner) isNode() bool {
	return in != nil && in.APIVersion == "v1" && in.Kind == "Node"
}

// DeepCopy returns a copy that shares no memory with in.
func (in *DriverResources) DeepCopy() *DriverResources {
	if in == nil {
		return nil
	}
	out := new(DriverResources)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto makes out a copy of in that shares no memory with it.
func (in *DriverResources) DeepCopyInto(out *DriverResources) {
	*out = *in
	if in.Pools != nil {
		out.Pools = make(map[string]Pool, len(in.Pools))
		for name, pool := range in.Pools {
			out.Pools[name] = *pool.DeepCopy()
		}
	}
}

// DeepCopy returns a copy that shares no memory with in.
func (in *Pool) DeepCopy() *Pool {
	if in == nil {
		return nil
	}
	out := new(Pool)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto makes out a copy of in that shares no memory with it.
func (in *Pool) DeepCopyInto(out *Pool) {
	*out = *in
	out.NodeSelector = in.NodeSelector.DeepCopy()
	if in.Slices != nil {
		out.Slices = make([]Slice, len(in.Slices))
		for i := range in.Slices {
			in.Slices[i].DeepCopyInto(&out.Slices[i])
		}
	}
}

// DeepCopy returns a copy that shares no memory with in.
func (in *Slice) DeepCopy() *Slice {
	if in == nil {
		return nil
	}
	out := new(Slice)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto makes out a copy of in that shares no memory with it.
func (in *Slice) DeepCopyInto(out *Slice) {
	*out = *in
	if in.Devices != nil {
		out.Devices = make([]resourceapi.Device, len(in.Devices))
		for i := range in.Devices {
			in.Devices[i].DeepCopyInto(&out.Devices[i])
		}
	}
	if in.SharedCounters != nil {
		out.SharedCounters = make([]resourceapi.CounterSet, len(in.SharedCounters))
		for i := range in.SharedCounters {
			in.SharedCounters[i].DeepCopyInto(&out.SharedCounters[i])
		}
	}
	out.PerDeviceNodeSelection = clonePointer(in.PerDeviceNodeSelection)
	out.PartitionTypeAttribute = clonePointer(in.PartitionTypeAttribute)
	out.SkipNodeOperations = slices.Clone(in.SkipNodeOperations)
}

// DeepCopy returns a copy that shares no memory with in.
func (in *Owner) DeepCopy() *Owner {
	if in == nil {
		return nil
	}
	out := new(Owner)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto makes out a copy of in that shares no memory with it.
func (in *Owner) DeepCopyInto(out *Owner) { *out = *in }

func clonePointer[T any](in *T) *T {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}
