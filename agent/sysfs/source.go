// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/inventory"
)

// Options configure a Source.
type Options struct {
	// Root is the folder that contains sys. It defaults to /.
	Root string
	// Driver and Pool are those of the devices' IDs. The pool of a node's devices is usually named
	// like the node.
	Driver string
	Pool   string
	// Interval is the time between two scans. It defaults to ten seconds.
	Interval time.Duration
}

// Source is an inventory.Source that reads sysfs.
type Source struct {
	options Options
}

var _ inventory.Source = &Source{}

// New returns a Source.
func New(options Options) *Source {
	if options.Root == "" {
		options.Root = "/"
	}
	if options.Interval == 0 {
		options.Interval = 10 * time.Second
	}
	return &Source{options: options}
}

// Run scans sysfs at an interval, because the kernel does not announce all changes. It reports the
// devices when they have changed. It returns an error if the first scan fails. Later errors are
// logged, and the last report remains valid.
func (s *Source) Run(ctx context.Context, report func(*inventory.Inventory)) error {
	last, err := s.Scan()
	if err != nil {
		return err
	}
	report(last)
	ticker := time.NewTicker(s.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := s.Scan()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Devices that changed may have been missed")
			continue
		}
		if !equality.Semantic.DeepEqual(last, now) {
			last = now
			report(now)
		}
	}
}

// Scan scans sysfs once. Devices are sorted by PCI address. It returns an error if sysfs has no PCI
// bus or cannot be read. A device that disappears during the scan is left out, with its virtual
// functions.
func (s *Source) Scan() (*inventory.Inventory, error) {
	bus := filepath.Join(s.options.Root, "sys/bus/pci/devices")
	entries, err := os.ReadDir(bus) // sorted by name; all names have the same length
	if err != nil {
		return nil, fmt.Errorf("find PCI devices: %w", err)
	}
	found := &inventory.Inventory{}
	byAddress := make(map[string]*inventory.Device)
	var all []*function
	for _, entry := range entries {
		f := &function{options: &s.options, address: entry.Name(), dir: filepath.Join(bus, entry.Name())}
		device, err := f.device()
		switch {
		case !f.isThere():
			// It disappeared meanwhile, and may have been read in part only.
		case err != nil:
			return nil, fmt.Errorf("PCI device %s: %w", f.address, err)
		case device != nil:
			byAddress[f.address] = device
			all = append(all, f)
		}
	}
	for _, f := range all {
		device := byAddress[f.address]
		if f.physicalFunction != "" && !f.follows(device, byAddress[f.physicalFunction]) {
			continue
		}
		found.Devices = append(found.Devices, *device)
		if set := f.counterSet(); set != nil {
			found.CounterSets = append(found.CounterSets, *set)
		}
	}
	return found, nil
}

// attribute returns the content of a file with one line. It is empty if the file does not exist.
func attribute(path ...string) (string, error) {
	content, err := os.ReadFile(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}

// children returns the names in a folder. There are none if the folder does not exist.
func children(path ...string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// linkName returns the last part of a link's target. It is empty if the link does not exist.
func linkName(path ...string) (string, error) {
	target, err := os.Readlink(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return filepath.Base(target), nil
}
