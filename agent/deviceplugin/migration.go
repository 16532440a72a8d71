// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/cdi"
)

// findOthers looks for other CDI files that define the same devices. If two files define a device,
// a runtime can resolve it in neither. A file that Intel's package wrote before the migration to
// this package is removed. Any other file is a conflict: the device cannot be allocated, and the
// error names the file.
func (s *specs) findOthers(ctx context.Context) {
	s.blocked = make(map[string]error)
	keys := make(map[string]string) // by qualified name of the device
	for key, spec := range s.wanted {
		for _, name := range cdi.QualifiedNames(spec) {
			keys[name] = key
		}
	}
	others, err := s.files.Others()
	if err != nil {
		klog.FromContext(ctx).Error(err, "It is not known whether others define the same CDI devices")
		return
	}
	for _, other := range others {
		for _, name := range other.Devices {
			key := keys[name]
			if key == "" {
				continue
			}
			if err := s.supersede(ctx, other); err != nil {
				s.blocked[key] = fmt.Errorf("CDI device %s: %s defines it, too: %w", name, other.Path, err)
			}
		}
	}
}

// supersede removes a file of Intel's package, unless the process that wrote it may still be
// running.
func (s *specs) supersede(ctx context.Context, other cdi.Other) error {
	switch {
	case len(other.Devices) != 1 || filepath.Base(other.Path) != intelFile(other.Devices[0]):
		return errors.New("whose file that is is not known; the device can be allocated when it is gone")
	case s.shared:
		return errors.New("another process serves devices of the same namespace, and may need the file")
	}
	if err := os.Remove(other.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	klog.FromContext(ctx).Info("Removed the CDI file of the device plugin that served the device before", "device", other.Devices[0], "file", other.Path)
	return nil
}

// intelFile returns the name of the file that Intel's package writes for a device.
func intelFile(qualifiedName string) string {
	return strings.NewReplacer("/", "-", "=", "-").Replace(qualifiedName) + ".yaml"
}
