package controlplane

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/schedplugin/deploy"
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
	return append(p.secureServing(p.ports.scheduler),
		"--config="+config,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		fmt.Sprintf("-v=%d", p.options.SchedulerVerbosity),
	), nil
}

// schedulerConfig writes the configuration file and returns its path.
func (p *ControlPlane) schedulerConfig(kubeconfig string) (string, error) {
	config, err := schedulerConfiguration(p.options.Scheduler)
	if err != nil {
		return "", err
	}
	if p.pluginArguments != "" {
		config.Profiles[0].PluginConfig = append(config.Profiles[0].PluginConfig, configv1.PluginConfig{
			Name: "Dray", Args: runtime.RawExtension{Raw: []byte(p.pluginArguments)},
		})
	}
	config.ClientConnection.Kubeconfig = kubeconfig
	// There is one user, who waits.
	config.ClientConnection.QPS, config.ClientConnection.Burst = 500, 1000
	config.PodMaxBackoffSeconds = ptr.To[int64](1)
	config.LeaderElection.LeaderElect = ptr.To(false)
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encode the scheduler's configuration: %w", err)
	}
	path := p.path("scheduler.yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// schedulerConfiguration is what is deployed, or kube-scheduler's default.
func schedulerConfiguration(scheduler Scheduler) (*configv1.KubeSchedulerConfiguration, error) {
	config := &configv1.KubeSchedulerConfiguration{}
	config.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	if scheduler == InTree {
		return config, nil
	}
	if err := yaml.UnmarshalStrict(deploy.SchedulerConfiguration, config); err != nil {
		return nil, fmt.Errorf("decode the scheduler's configuration: %w", err)
	}
	return config, nil
}
