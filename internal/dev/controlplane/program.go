// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"path/filepath"
)

// Program is one that runs beside the control plane, such as the agent of a node. Its log is
// in the control plane's folder.
type Program struct{ running *component }

// Launch starts a program. A log of an earlier one of the same name is continued. Whoever
// launches it ends it before the control plane.
func (p *ControlPlane) Launch(name, path string, arguments ...string) (*Program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", name, err)
	}
	running, err := launch(p.folder, name, path, arguments)
	if err != nil {
		return nil, err
	}
	return &Program{running}, nil
}

// PID is the program's process, which may have ended.
func (p *Program) PID() int { return p.running.command.Process.Pid }

// Stop asks the program to end, and waits for it. It may be called again, and for nil.
func (p *Program) Stop() error {
	if p == nil {
		return nil
	}
	return p.running.terminate()
}

// Kill ends the program where it stands, with SIGKILL. It may be called again, and for nil.
func (p *Program) Kill() error {
	if p == nil {
		return nil
	}
	return p.running.kill()
}

// Err is nil while the program runs. It then says how it ended, and what it wrote last.
func (p *Program) Err() error {
	if !p.running.gone() {
		return nil
	}
	return fmt.Errorf("%s ended: %s; its log %s ends with\n%s", p.running.name, p.running.command.ProcessState, p.running.logPath, p.running.tail())
}
