// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/dray-project/dray/alloctest"
)

// Classes is a lister of device classes.
type Classes []*resourceapi.DeviceClass

// List returns all classes.
func (l Classes) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

// Get returns a class by name, or a not-found error.
func (l Classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// programCaches keeps one cache of compiled CEL programs per CEL feature set.
type programCaches struct {
	mu     sync.Mutex
	caches map[cel.Features]*cel.Cache
}

func newProgramCaches() *programCaches {
	return &programCaches{caches: make(map[cel.Features]*cel.Cache)}
}

func (p *programCaches) forCase(c *alloctest.Case) *cel.Cache {
	features := cel.Features{
		EnableConsumableCapacity: c.Features.ConsumableCapacity,
		EnableListTypeAttributes: c.Features.ListTypeAttributes,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.caches[features] == nil {
		// Wider than upstream's default of 10, so that runs do not spend
		// their time compiling.
		p.caches[features] = cel.NewCache(1000, features)
	}
	return p.caches[features]
}
