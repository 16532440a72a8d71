// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

const (
	// timeout limits each wait of a demo.
	timeout    = 10 * time.Minute
	pollPeriod = 50 * time.Millisecond
)

// Act is one step of a demo.
type Act struct {
	What string // name of the act in errors
	Play func(ctx context.Context) error
}

// Stage is a control plane with other programs, and the output of a demo.
type Stage struct {
	Plane  *controlplane.ControlPlane
	Client kubernetes.Interface

	settings Settings
	out      io.Writer
	began    time.Time
	programs []*controlplane.Program
}

// Show starts a control plane, plays the acts, and stops everything. The programs dray and
// dray-agent must be in the folder of binaries.
func (s Settings) Show(ctx context.Context, out io.Writer, acts func(*Stage) []Act) error {
	binaries, err := controlplane.BinariesIn(s.Binaries)
	for _, name := range []string{"dray", "dray-agent"} {
		_, missing := os.Stat(filepath.Join(s.Binaries, name))
		err = errors.Join(err, missing)
	}
	if err != nil {
		return fmt.Errorf("%w\n\"make build agent controlplane\" builds them; --binaries says where they are", err)
	}
	stage := &Stage{settings: s, out: out, began: time.Now()}
	options := controlplane.Options{Binaries: binaries, Scheduler: controlplane.Dray, SchedulerVerbosity: 2}
	return controlplane.Use(ctx, options, func(plane *controlplane.ControlPlane) (err error) {
		defer func() { err = errors.Join(err, stage.stop()) }()
		if stage.Client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
			return err
		}
		stage.Plane = plane
		stage.Say("etcd, kube-apiserver, kube-controller-manager and dray-scheduler run.")
		return stage.play(ctx, acts(stage))
	})
}

// play plays the acts. Programs run until stop, even if ctx ends before.
func (s *Stage) play(ctx context.Context, acts []Act) error {
	timed, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not within %v", timeout))
	defer cancel()
	for _, act := range acts {
		if err := act.Play(timed); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w", act.What, errors.Join(err, context.Cause(timed)))
		}
	}
	if s.settings.Keep {
		s.Print("\nThe control plane and all programs run until Ctrl-C. In another terminal:\n\n  export KUBECONFIG=%s\n", s.Plane.Kubeconfig())
		<-ctx.Done()
	}
	return nil
}

// stop stops the programs in reverse order.
func (s *Stage) stop() error {
	var failed []error
	for _, program := range slices.Backward(s.programs) {
		failed = append(failed, program.Stop())
	}
	return errors.Join(failed...)
}

// Say prints a progress message with the time since the start.
func (s *Stage) Say(format string, arguments ...any) {
	s.Print("%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, arguments...))
}

// Print prints text without a time.
func (s *Stage) Print(format string, arguments ...any) { fmt.Fprintf(s.out, format, arguments...) }

// Launch starts dray-agent. name is used for its log. It runs until the stage stops.
func (s *Stage) Launch(name string, arguments ...string) error {
	program, err := s.Plane.Launch(name, filepath.Join(s.settings.Binaries, "dray-agent"), arguments...)
	if err != nil {
		return err
	}
	s.programs = append(s.programs, program)
	return nil
}

// Until polls ask until it returns true. It returns an error if a program ends.
func (s *Stage) Until(ctx context.Context, ask func(context.Context) (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		for _, program := range s.programs {
			if err := program.Err(); err != nil {
				return false, err
			}
		}
		return ask(ctx)
	})
}

// ShowDevices runs dray devices on the live cluster. It prints the header and the lines that
// contain what. An empty what selects all lines.
func (s *Stage) ShowDevices(ctx context.Context, what string) error {
	command := exec.CommandContext(ctx, filepath.Join(s.settings.Binaries, "dray"), "devices", "--kubeconfig="+s.Plane.Kubeconfig())
	command.Stderr = s.out
	table, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	s.Print("\n")
	header := true
	for line := range strings.Lines(string(table)) {
		if header || strings.Contains(line, what) {
			s.Print("        %s", line)
		}
		header = false
	}
	s.Print("\n")
	return nil
}
