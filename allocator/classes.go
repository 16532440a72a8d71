package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// Classes looks up DeviceClasses. Upstream's DeviceClassLister and client-go's
// listers satisfy it.
type Classes interface {
	// Get returns the class or an error if there is none of that name.
	Get(name string) (*resourceapi.DeviceClass, error)
}

// ClassMap returns Classes over the given objects.
func ClassMap(classes ...*resourceapi.DeviceClass) Classes {
	byName := make(classMap, len(classes))
	for _, class := range classes {
		byName[class.Name] = class
	}
	return byName
}

type classMap map[string]*resourceapi.DeviceClass

func (m classMap) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := m[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("device class %q does not exist", name)
}
