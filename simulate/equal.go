package simulate

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/pools"
)

// Equal are devices of a template that will agree in an attribute of which the value is not known before
// the node exists, such as the number of a PCIe root. A matchAttribute holds for devices of one Equal. It
// does not hold for devices of two, nor together with a device that is in none: their values may differ.
// Nothing else that needs the value holds: no distinctAttribute, as values may turn out to be equal, no
// selector that reads the attribute, and no DeviceAttribute of a Topology. Result.Why says "unknown"
// where a selector is in the way.
type Equal struct {
	Attribute resourceapi.FullyQualifiedName
	// Devices are by driver, and by pool as in the Slices of the TemplateSpec.
	Devices []pools.DeviceID
}

// withUnknown returns the slices of a template with stand-ins for values that are not known. Slices
// without such devices are returned as they are. The error names the entry of Equal and the device.
func (s *TemplateSpec) withUnknown() ([]*resourceapi.ResourceSlice, error) {
	if len(s.Equal) == 0 {
		return s.Slices, nil
	}
	patched := slices.Clone(s.Slices)
	for i, equal := range s.Equal {
		if domain, id, qualified := cutName(string(equal.Attribute)); !qualified || domain == "" || id == "" {
			return nil, fmt.Errorf("equal %d: attribute %q: want domain/name", i, equal.Attribute)
		}
		if len(equal.Devices) == 0 {
			return nil, fmt.Errorf("equal %d: there is no device", i)
		}
		for _, id := range equal.Devices {
			if err := s.forget(patched, id, equal.Attribute, fmt.Sprint(shape.UnknownPrefix, s.Node.Name, "/", i)); err != nil {
				return nil, fmt.Errorf("equal %d: device %s: %w", i, id, err)
			}
		}
	}
	return patched, nil
}

// forget gives a device a stand-in for the value of an attribute.
func (s *TemplateSpec) forget(patched []*resourceapi.ResourceSlice, id pools.DeviceID, name resourceapi.FullyQualifiedName, standIn string) error {
	found := false
	for i, slice := range patched {
		if poolOf(slice) != id.PoolID() {
			continue
		}
		for d := range slice.Spec.Devices {
			if slice.Spec.Devices[d].Name != id.Device {
				continue
			}
			switch value, has := published(id.Driver, &slice.Spec.Devices[d], name); {
			case has && shape.Unknown(&value):
				return fmt.Errorf("attribute %s is equal to that of other devices already", name)
			case has:
				return fmt.Errorf("attribute %s has a value", name)
			}
			if patched[i] == s.Slices[i] {
				patched[i] = slice.DeepCopy()
			}
			device := &patched[i].Spec.Devices[d]
			if device.Attributes == nil {
				device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
			}
			device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: ptr.To(standIn)}
			found, slice = true, patched[i]
		}
	}
	if !found {
		return fmt.Errorf("no slice of the template has it")
	}
	return nil
}
