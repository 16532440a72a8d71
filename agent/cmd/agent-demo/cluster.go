// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/claims"
	"github.com/dray-project/dray/agent/internal/demo"
	"github.com/dray-project/dray/agent/inventory"
)

const nodeName = "node-1"

// stage is the demo's control plane with one node.
type stage struct {
	*demo.Stage
	hardware string
	claims   *claims.Preparer
	failing  string // name of the GPU that fails
}

// kubeletDir and cdiDir stand for the node's /var/lib/kubelet and /var/run/cdi.
func (s *stage) kubeletDir() string { return filepath.Join(s.Plane.Folder(), "node") }
func (s *stage) cdiDir() string     { return filepath.Join(s.Plane.Folder(), "cdi") }

// run starts everything, plays the demo, and stops everything.
func (s settings) run(ctx context.Context, out io.Writer) error {
	show := &stage{hardware: s.hardware}
	defer func() {
		if show.claims != nil {
			show.claims.Stop()
		}
	}()
	return s.Show(ctx, out, func(under *demo.Stage) []demo.Act {
		show.Stage = under
		return show.acts()
	})
}

// startAgent runs dray-agent on simulated hardware. Failed devices do not recover, so that the demo
// can show them.
func (s *stage) startAgent() error {
	hardware, err := s.writeHardware()
	if err != nil {
		return err
	}
	return s.Launch("dray-agent", "run",
		"--simulate="+hardware, "--node-name="+nodeName, "--kubeconfig="+s.Plane.Kubeconfig(),
		"--kubelet-dir="+s.kubeletDir(), "--cdi-dir="+s.cdiDir(), "--device-plugin=false", "--listen=")
}

func (s *stage) writeHardware() (string, error) {
	simulation, err := inventory.ReadSimulation(s.hardware, nodeName)
	if err != nil {
		return "", err
	}
	var failures []inventory.SimulatedEvent
	for _, event := range simulation.Script {
		if event.Fail != nil {
			failures = append(failures, event)
		}
	}
	if len(failures) == 0 {
		return "", fmt.Errorf("--simulate: %s: no device fails in its script", s.hardware)
	}
	simulation.Script, s.failing = failures[:1], failures[0].Device
	text, err := yaml.Marshal(simulation)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.Plane.Folder(), "hardware.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// startNode starts to prepare claims, as kubelet does.
func (s *stage) startNode(ctx context.Context) (err error) {
	s.claims, err = claims.Start(ctx, claims.Options{
		KubeClient:      s.Client,
		RegistrationDir: filepath.Join(s.kubeletDir(), "plugins_registry"),
		Checkpoint:      filepath.Join(s.kubeletDir(), "claims.json"),
		Recorder:        &record.FakeRecorder{}, // Await returns the errors, too
	})
	return err
}
