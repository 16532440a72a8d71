// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Binaries are the paths of the programs that make up a control plane, and of what they are
// deployed with.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string
	// SchedulerConfiguration is a KubeSchedulerConfiguration in which the plugin Dray takes
	// the place of DynamicResources.
	SchedulerConfiguration string
}

// BinariesIn expects the files under their usual names in one folder, where
// `make controlplane` puts them. The error names all that are missing.
func BinariesIn(folder string) (Binaries, error) {
	found := Binaries{
		Etcd:              filepath.Join(folder, "etcd"),
		APIServer:         filepath.Join(folder, "kube-apiserver"),
		ControllerManager: filepath.Join(folder, "kube-controller-manager"),
		Scheduler:         filepath.Join(folder, "dray-scheduler"),

		SchedulerConfiguration: filepath.Join(folder, "scheduler-config.yaml"),
	}
	return found, found.check()
}

func (b *Binaries) paths() []*string {
	return []*string{&b.Etcd, &b.APIServer, &b.ControllerManager, &b.Scheduler, &b.SchedulerConfiguration}
}

func (b Binaries) check() error {
	var missing []error
	for _, path := range b.paths() {
		if _, err := os.Stat(*path); err != nil {
			missing = append(missing, fmt.Errorf("binary of the control plane: %w", err))
		}
	}
	return errors.Join(missing...)
}
