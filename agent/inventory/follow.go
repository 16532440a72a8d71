// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// Run implements Source. If a change makes the file invalid, it logs the error, and the devices
// stay as they are.
func (s *Simulation) Run(ctx context.Context, report func(*Inventory)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch simulation: %w", err)
	}
	// Editors and deployments replace the file, so watch its folder.
	if err := watcher.Add(filepath.Dir(s.path)); err != nil {
		return errors.Join(fmt.Errorf("watch simulation: %w", err), watcher.Close())
	}
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer func() { _ = watcher.Close() }()
	watching.Go(func() { s.watch(ctx, watcher, changed) })
	current := s
	// The file may have changed before the watch began.
	if again, err := ReadSimulation(s.path, s.node.name); err == nil {
		current = again
	}
	for ctx.Err() == nil {
		current.play(ctx, changed, report)
		if ctx.Err() != nil {
			return nil
		}
		next, err := ReadSimulation(s.path, s.node.name)
		for err != nil {
			klog.FromContext(ctx).Error(err, "The simulated devices stay as they are")
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			next, err = ReadSimulation(s.path, s.node.name)
		}
		current = next
	}
	return nil
}

// watch sends a value to changed when the file changes, until the watcher is closed.
func (s *Simulation) watch(ctx context.Context, watcher *fsnotify.Watcher, changed chan<- struct{}) {
	for {
		select {
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if filepath.Clean(event.Name) != filepath.Clean(s.path) || event.Op == fsnotify.Chmod {
				continue
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			klog.FromContext(ctx).Error(err, "Changes of the simulation were lost", "file", s.path)
		}
		select {
		case changed <- struct{}{}:
		default: // the previous value was not received yet
		}
	}
}
