// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// StartScheduler starts the scheduler, which must not be running, and waits until it
// schedules.
func (p *ControlPlane) StartScheduler(ctx context.Context) error {
	if p.scheduler != nil && !p.scheduler.gone() {
		return fmt.Errorf("start the scheduler: it is running")
	}
	arguments, err := p.schedulerArguments()
	if err != nil {
		return err
	}
	p.scheduler, err = launch(p.folder, "dray-scheduler", p.options.Binaries.Scheduler, arguments)
	if err != nil {
		return err
	}
	return p.scheduler.await(ctx, p.ready(p.ports.scheduler, "/readyz"))
}

// SetPluginArguments configures the plugin Dray from the next start of the scheduler on, with
// DrayArgs as JSON. None stand for the defaults.
func (p *ControlPlane) SetPluginArguments(arguments string) { p.pluginArguments = arguments }

// SetSchedulerFeatures overrides feature gates for schedulers from their next start on.
func (p *ControlPlane) SetSchedulerFeatures(features map[string]bool) { p.schedulerFeatures = features }

// SchedulerMetrics are what the scheduler serves on /metrics.
func (p *ControlPlane) SchedulerMetrics(ctx context.Context) (string, error) {
	return p.get(ctx, p.ports.scheduler, "/metrics")
}

// StopScheduler asks the scheduler to end and waits for it.
func (p *ControlPlane) StopScheduler() error { return p.scheduler.terminate() }

// KillScheduler ends the scheduler where it stands, with SIGKILL.
func (p *ControlPlane) KillScheduler() error { return p.scheduler.kill() }

func (p *ControlPlane) schedulerArguments() ([]string, error) {
	client, err := p.ConfigFor(SchedulerUser)
	if err != nil {
		return nil, err
	}
	if p.options.SchedulerServer != nil {
		if client.Host, err = p.options.SchedulerServer(p); err != nil {
			return nil, fmt.Errorf("the scheduler's way to the API server: %w", err)
		}
	}
	return p.configureScheduler(client)
}

func (p *ControlPlane) configureScheduler(client *rest.Config) ([]string, error) {
	kubeconfig, err := p.writeKubeconfig("dray-scheduler", client)
	if err != nil {
		return nil, err
	}
	config, err := p.schedulerConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	return p.schedulerFlags(p.ports.scheduler, config, kubeconfig), nil
}

// schedulerFlags are the arguments of a scheduler, given the paths of its files.
func (p *ControlPlane) schedulerFlags(port int, config, kubeconfig string) []string {
	return append(p.secureServing(port, p.schedulerFeatures),
		"--config="+config,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		fmt.Sprintf("-v=%d", p.options.SchedulerVerbosity),
	)
}

// schedulerConfig writes the configuration file and returns its path.
func (p *ControlPlane) schedulerConfig(kubeconfig string) (string, error) {
	config, err := p.options.schedulerConfiguration()
	if err != nil {
		return "", err
	}
	if p.pluginArguments != "" {
		if err := setPluginArguments(config, p.pluginArguments); err != nil {
			return "", err
		}
	}
	return p.writeSchedulerConfig("scheduler", config, kubeconfig, "")
}

// writeSchedulerConfig writes a configuration file, with what is particular to this control
// plane, and returns its path. Without a lease the scheduler leads at once.
func (p *ControlPlane) writeSchedulerConfig(name string, config map[string]any, kubeconfig, lease string) (string, error) {
	// There is one user, who waits.
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 500, "burst": 1000}
	config["podMaxBackoffSeconds"] = 1
	config["leaderElection"] = map[string]any{"leaderElect": false}
	if lease != "" {
		config["leaderElection"] = map[string]any{
			"leaderElect": true, "resourceNamespace": "kube-system", "resourceName": lease,
			// A machine that is busy does not cost the lease. Who kills a leader deletes it.
			"leaseDuration": "10m", "renewDeadline": "9m", "retryPeriod": "1s",
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encode the scheduler's configuration: %w", err)
	}
	path := p.path(name + ".yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// schedulerConfiguration is what is deployed, or kube-scheduler's default. It is not decoded
// into its type, whose package would become a dependency of the library's module.
func (o Options) schedulerConfiguration() (map[string]any, error) {
	config := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	if o.Scheduler == InTree {
		return config, nil
	}
	text, err := os.ReadFile(o.Binaries.SchedulerConfiguration)
	if err != nil {
		return nil, fmt.Errorf("the scheduler's configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("decode the scheduler's configuration: %w", err)
	}
	return config, nil
}

// setPluginArguments gives arguments, as JSON, to the plugin Dray of the first profile, in place of
// those that it has.
func setPluginArguments(config map[string]any, arguments string) error {
	var decoded map[string]any
	if err := json.Unmarshal([]byte(arguments), &decoded); err != nil {
		return fmt.Errorf("decode the arguments of the plugin Dray: %w", err)
	}
	profiles, _ := config["profiles"].([]any)
	if len(profiles) == 0 {
		return errors.New("arguments of the plugin Dray: the scheduler's configuration has no profile")
	}
	profile, ok := profiles[0].(map[string]any)
	if !ok {
		return fmt.Errorf("arguments of the plugin Dray: the scheduler's first profile is a %T", profiles[0])
	}
	configs, _ := profile["pluginConfig"].([]any)
	configs = slices.DeleteFunc(configs, func(config any) bool {
		named, _ := config.(map[string]any)
		return named["name"] == "Dray"
	})
	profile["pluginConfig"] = append(configs, map[string]any{"name": "Dray", "args": decoded})
	return nil
}
