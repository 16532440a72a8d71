// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/klog/v2"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
)

// specs writes the CDI files of all devices of a Manager. Runtimes identify a CDI device by its
// name alone. So devices with the same CDI name, such as shares of a device, have the same file.
type specs struct {
	files *cdi.Files

	mu        sync.Mutex
	wanted    map[string]*cdispec.Spec // by key
	conflicts map[string]error         // keys for which devices have different specs
	blocked   map[string]error         // keys that files of other programs define, too
	existing  map[string]bool          // keys for which a file may exist
	shared    bool                     // another process serves types of the same namespace
}

// specKey returns the qualified name of the spec's first device.
func specKey(spec *cdispec.Spec) string { return cdi.QualifiedNames(spec)[0] }

// adopt records files of an earlier process, so that removeOthers removes those that are no longer
// needed. If another process serves types of the same namespace, the files may be its own, and are
// left alone.
func (s *specs) adopt(ctx context.Context, othersServe bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.existing = make(map[string]bool)
	s.shared = othersServe
	if othersServe {
		return
	}
	keys, err := s.files.Keys()
	if err != nil {
		klog.FromContext(ctx).Error(err, "CDI files of an earlier process are not removed")
	}
	for _, key := range keys {
		s.existing[key] = true
	}
}

// write updates the files of all devices. A file that cannot be written is tried again when its
// device is allocated.
func (s *specs) write(ctx context.Context, tree DeviceTree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.wanted
	s.collect(tree)
	s.findOthers(ctx)
	for _, errs := range []map[string]error{s.conflicts, s.blocked} {
		for _, err := range errs {
			klog.FromContext(ctx).Error(err, "Devices cannot be allocated")
		}
	}
	for key, spec := range s.wanted {
		if reflect.DeepEqual(before[key], spec) {
			continue
		}
		s.existing[key] = true
		if err := s.files.Write(key, spec); err != nil {
			klog.FromContext(ctx).Error(err, "A device cannot be allocated until its CDI file can be written")
		}
	}
}

// collect fills wanted and conflicts from a tree.
func (s *specs) collect(tree DeviceTree) {
	s.wanted = make(map[string]*cdispec.Spec)
	s.conflicts = make(map[string]error)
	definedBy := make(map[string]string)
	for _, devType := range slices.Sorted(maps.Keys(tree)) {
		for _, id := range slices.Sorted(maps.Keys(tree[devType])) {
			spec := tree[devType][id].cdiSpec
			if spec == nil {
				continue
			}
			key, device := specKey(spec), devType+" "+id
			if other, defined := s.wanted[key]; defined && !reflect.DeepEqual(other, spec) {
				s.conflicts[key] = fmt.Errorf("CDI device %s: devices %s and %s define it differently", key, definedBy[key], device)
				continue
			}
			s.wanted[key], definedBy[key] = spec, device
		}
	}
}

// removeOthers removes files that no device needs.
func (s *specs) removeOthers(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.existing {
		if s.wanted[key] != nil {
			continue
		}
		if err := s.files.Remove(key); err != nil {
			klog.FromContext(ctx).Error(err, "A CDI file that nobody needs is left, until the next change of devices")
			continue
		}
		delete(s.existing, key)
	}
}

// ensure writes the file of a spec again, in case somebody removed it. It returns the qualified
// names of its devices.
func (s *specs) ensure(ctx context.Context, spec *cdispec.Spec) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := specKey(spec)
	if s.blocked[key] != nil {
		s.findOthers(ctx) // the other file may be gone
	}
	if err := errors.Join(s.conflicts[key], s.blocked[key]); err != nil {
		return nil, err
	}
	current := s.wanted[key]
	if current == nil {
		return nil, fmt.Errorf("CDI device %s: its device was removed", key)
	}
	if err := s.files.Write(key, current); err != nil {
		return nil, err
	}
	return cdi.QualifiedNames(current), nil
}
