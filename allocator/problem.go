// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/internal/index/pool"
)

// Problem is what a set of claims asks for, compiled: class and request joined, selectors compiled, constraints
// bound to the requests they cover. It knows nothing of nodes or devices, is immutable, and may be used by any
// number of goroutines and for any number of nodes and snapshots.
type Problem struct {
	allocator *Allocator
	recall    *alike.Recall
}

// Compile checks claims and joins them with their classes. Claims are allocated together, in order. An error
// names claim and field; it means that the claims cannot be allocated on any node until the input changes. The
// claims and classes are kept and must not be modified while the Problem is in use. Nil classes mean that there
// are none.
func (a *Allocator) Compile(objects []*resourceapi.ResourceClaim, classes Classes) (*Problem, error) {
	return a.compile(objects, nil, classes)
}

// CompileExtended is Compile for the claims of one pod, with their extensions to resource.k8s.io/v1. The lists
// have equal length. Claims that are already allocated are not part of the Problem; their devices only count
// for constraints across claims. Choice.Claim and the order of Results refer to the other claims.
func (a *Allocator) CompileExtended(objects []*resourceapi.ResourceClaim, extensions []extension.Claim, classes Classes) (*Problem, error) {
	if len(objects) != len(extensions) {
		return nil, fmt.Errorf("%d extensions for %d claims", len(extensions), len(objects))
	}
	extended := new(claims.Extended)
	open := make([]*resourceapi.ResourceClaim, 0, len(objects))
	for i, object := range objects {
		if object == nil || object.Status.Allocation == nil {
			open, extended.Claims = append(open, object), append(extended.Claims, extensions[i])
			continue
		}
		allocated := claims.Allocated{Claim: extensions[i]}
		for _, result := range object.Status.Allocation.Devices.Results {
			allocated.Devices = append(allocated.Devices, pool.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device})
		}
		extended.Allocated = append(extended.Allocated, allocated)
	}
	return a.compile(open, extended, classes)
}

func (a *Allocator) compile(objects []*resourceapi.ResourceClaim, extended *claims.Extended, classes Classes) (*Problem, error) {
	if classes == nil {
		classes = ClassMap()
	}
	compiled, err := claims.Compile(a.evaluator, objects, extended, a.topology, classes)
	if err != nil {
		return nil, err
	}
	return &Problem{allocator: a, recall: a.memory.Recall(compiled, a.id, !a.uncached)}, nil
}

// Classes looks up DeviceClasses. Upstream's DeviceClassLister and client-go's
// listers satisfy it.
type Classes interface {
	// Get returns the class or an error if there is none of that name.
	Get(name string) (*resourceapi.DeviceClass, error)
}

// ClassMap returns Classes over the given objects. Nil objects are ignored.
func ClassMap(classes ...*resourceapi.DeviceClass) Classes {
	byName := make(classMap, len(classes))
	for _, class := range classes {
		if class != nil {
			byName[class.Name] = class
		}
	}
	return byName
}

// UnknownClassError says that a claim asks for a class that does not exist.
type UnknownClassError struct{ Name string }

// Error implements error.
func (e *UnknownClassError) Error() string {
	return fmt.Sprintf("DeviceClass %q does not exist", e.Name)
}

type classMap map[string]*resourceapi.DeviceClass

func (m classMap) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := m[name]; class != nil {
		return class, nil
	}
	return nil, &UnknownClassError{Name: name}
}
