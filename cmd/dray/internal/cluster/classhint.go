// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/spelling"
)

// Matches reports whether a device of the pool matches a selector. If the selector fails, it does
// not match.
func (c *Cluster) Matches(expression string, pool *PoolState, device *DeviceState) bool {
	for i := range device.matched {
		if device.matched[i].expression == expression {
			return device.matched[i].matches
		}
	}
	if device.seen == nil {
		device.seen = cel.NewDevice(pool.Driver, device.Object)
	}
	matches := c.matches(expression, device.seen)
	if len(device.matched) < maxMatched {
		device.matched = append(device.matched, matched{expression, matches})
	}
	return matches
}

// matched caches whether a device matches an expression.
type matched struct {
	expression string
	matches    bool
}

// maxMatched bounds the cache of a device. Few expressions are evaluated for one device.
const maxMatched = 8

func (c *Cluster) matches(expression string, device *cel.Device) bool {
	program, err := c.programs.Selector(expression)
	if err != nil {
		return false
	}
	matches, err := c.memo.Matches(context.Background(), program, device)
	return err == nil && matches
}

// Published reports whether any device of the class is published, usable or not.
func (c *Cluster) Published(class *resourceapi.DeviceClass) bool {
	if known, found := c.ofClass[class.Name]; found {
		return known
	}
	found := slices.ContainsFunc(c.objects.Slices, func(slice *resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(slice.Spec.Devices, func(device resourceapi.Device) bool {
			return !slices.ContainsFunc(class.Spec.Selectors, func(selector resourceapi.DeviceSelector) bool {
				return selector.CEL != nil && !c.matches(selector.CEL.Expression, cel.NewDevice(slice.Spec.Driver, &device))
			})
		})
	})
	c.ofClass[class.Name] = found
	return found
}

// compileError adds the names of existing classes to an error about an unknown class.
func (c *Cluster) compileError(err error) error {
	var unknown *allocator.UnknownClassError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w: %s", err, c.classHint(unknown.Name))
	}
	return err
}

// Classes returns the sorted names of the device classes.
func (c *Cluster) Classes() []string {
	names := make([]string, len(c.objects.Classes))
	for i, class := range c.objects.Classes {
		names[i] = class.Name
	}
	slices.Sort(names)
	return names
}

func (c *Cluster) classHint(name string) string {
	const few = 5
	names := c.Classes()
	if hint := spelling.DidYouMean(name, names); hint != "" {
		return hint
	}
	switch {
	case len(names) == 0:
		return "there is no DeviceClass at all"
	case len(names) > few:
		return fmt.Sprintf("there are %s, … %d in all", strings.Join(names[:few], ", "), len(names))
	}
	return "there is " + strings.Join(names, ", ")
}

// ClassNames returns the classes that a claim requests.
func ClassNames(claim *resourceapi.ResourceClaim) []string {
	var names []string
	for _, terms := range TermsOf(claim) {
		for _, offer := range terms.Offers {
			names = append(names, offer.Class)
		}
	}
	return names
}
