package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Binaries are the paths of the programs that make up a control plane.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string
}

// BinariesIn expects the programs under their usual names in one folder, where
// `make controlplane` puts them. The error names all that are missing.
func BinariesIn(folder string) (Binaries, error) {
	found := Binaries{
		Etcd:              filepath.Join(folder, "etcd"),
		APIServer:         filepath.Join(folder, "kube-apiserver"),
		ControllerManager: filepath.Join(folder, "kube-controller-manager"),
		Scheduler:         filepath.Join(folder, "dray-scheduler"),
	}
	return found, found.check()
}

func (b Binaries) check() error {
	var missing []error
	for _, path := range []string{b.Etcd, b.APIServer, b.ControllerManager, b.Scheduler} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Errorf("binary of the control plane: %w", err))
		}
	}
	return errors.Join(missing...)
}
