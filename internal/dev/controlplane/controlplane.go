// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// Files of the control plane's folder that several components read.
const (
	trustedCertificate = "ca.crt"
	servingCertificate = "serving.crt"
	servingKey         = "serving.key"
	kubeletCertificate = "kubelet-client.crt"
	kubeletKey         = "kubelet-client.key"
)

// startTimeout is how long everything together may take to become ready, on a machine that has
// other things to do. What is ready waits for none of it.
const startTimeout = 10 * time.Minute

// ControlPlane is one that runs.
type ControlPlane struct {
	options    Options
	folder     string
	keep       bool
	ports      ports
	authority  *authority
	trusted    []byte      // the authority's certificate, PEM-encoded
	dialing    *tls.Config // as the administrator
	kubeconfig string      // the administrator's
	admin      *rest.Config
	// pluginArguments are for the plugin Dray, as JSON. Empty: the defaults.
	pluginArguments string
	// schedulerFeatures are what schedulers have besides the options'.
	schedulerFeatures map[string]bool

	// nil until launched
	etcd, apiServer, controllers, scheduler *component
}

// ports are where the components listen.
type ports struct {
	etcd, etcdPeer, apiServer, controllers, scheduler int
}

// Start brings up a control plane and waits until it schedules pods, or until the API server
// serves if that is all.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	p, err := prepare(options)
	if err != nil {
		return nil, fmt.Errorf("prepare the control plane: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	launches := []func(context.Context) error{p.launchEtcd, p.StartAPIServer}
	if !options.APIServerOnly {
		launches = append(launches, p.launchControllers, p.StartScheduler)
	}
	for _, launch := range launches {
		if err := launch(ctx); err != nil {
			p.KeepFolder()
			return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), p.Stop())
		}
	}
	return p, nil
}

// prepare does all that needs no other process.
func prepare(options Options) (*ControlPlane, error) {
	options, err := options.absolute()
	if err != nil {
		return nil, err
	}
	p := &ControlPlane{options: options, schedulerFeatures: options.SchedulerFeatures}
	found, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	p.ports = ports{found[0], found[1], found[2], found[3], found[4]}
	if p.authority, err = newAuthority(); err != nil {
		return nil, err
	}
	if p.folder, err = newFolder(); err != nil {
		return nil, err
	}
	if err := errors.Join(p.writeCertificates(), p.introduceAdmin()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.folder))
	}
	return p, nil
}

func (p *ControlPlane) writeCertificates() error {
	var err error
	if p.trusted, err = p.authority.pem(); err != nil {
		return err
	}
	serving, err := p.authority.issue("dray-controlplane")
	if err != nil {
		return err
	}
	// Who asks kubelets for logs may do all.
	kubelets, err := p.authority.issue("kube-apiserver-kubelet-client", administrators)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(p.path(kubeletCertificate), kubelets.certificate, 0o600),
		os.WriteFile(p.path(kubeletKey), kubelets.key, 0o600),
		os.WriteFile(p.path(trustedCertificate), p.trusted, 0o600),
		os.WriteFile(p.path(servingCertificate), serving.certificate, 0o600),
		os.WriteFile(p.path(servingKey), serving.key, 0o600),
	)
}

func (p *ControlPlane) introduceAdmin() error {
	var err error
	if p.admin, err = p.ConfigFor("admin", administrators); err != nil {
		return err
	}
	identity, err := tls.X509KeyPair(p.admin.CertData, p.admin.KeyData)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AddCert(p.authority.certificate)
	p.dialing = &tls.Config{Certificates: []tls.Certificate{identity}, RootCAs: pool, MinVersion: tls.VersionTLS12}
	p.kubeconfig, err = p.writeKubeconfig("admin", p.admin)
	return err
}

// Stop ends what runs, those that depend on the API server before it. It may be called
// again. Clients should have ended their watches: as long as one is open, the API server
// goes on, until its grace period is over.
func (p *ControlPlane) Stop() error {
	var failures []error
	for _, c := range []*component{p.scheduler, p.controllers, p.apiServer, p.etcd} {
		failures = append(failures, c.terminate())
	}
	if !p.keep {
		failures = append(failures, os.RemoveAll(p.folder))
	}
	return errors.Join(failures...)
}

// KeepFolder makes Stop leave the folder, for the logs in it.
func (p *ControlPlane) KeepFolder() { p.keep = true }

// Folder is where logs, certificates and kubeconfigs are.
func (p *ControlPlane) Folder() string { return p.folder }

// Kubeconfig is the path of the administrator's kubeconfig.
func (p *ControlPlane) Kubeconfig() string { return p.kubeconfig }

// Config configures clients that act as the administrator.
func (p *ControlPlane) Config() *rest.Config { return rest.CopyConfig(p.admin) }

func (p *ControlPlane) path(name string) string { return filepath.Join(p.folder, name) }

func portArgument(port int) string { return fmt.Sprintf("--secure-port=%d", port) }

// ready asks a component whether it is.
func (p *ControlPlane) ready(port int, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.get(ctx, port, path)
		return err
	}
}

// get asks a component as the administrator.
func (p *ControlPlane) get(ctx context.Context, port int, path string) (string, error) {
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: p.dialing, DisableKeepAlives: true},
		Timeout:   5 * time.Second,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address(port)+path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if response.StatusCode == http.StatusOK {
		return string(text), err
	}
	return "", errors.Join(fmt.Errorf("%s answers %s: %s", path, response.Status, text[:min(len(text), tailLength)]), err)
}
