// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"strings"
)

// servedVersions are the API versions about devices that are not served by default.
var servedVersions = []string{
	"resource.k8s.io/v1beta1=true",
	"resource.k8s.io/v1beta2=true",
	"resource.k8s.io/v1alpha3=true",
	"scheduling.k8s.io/v1beta1=true",
	"scheduling.k8s.io/v1alpha3=true",
}

// StartAPIServer starts the API server, which must not be running, and waits until it
// serves. What was stored before is still there.
func (p *ControlPlane) StartAPIServer(ctx context.Context) error {
	if p.apiServer != nil && !p.apiServer.gone() {
		return errors.New("start the API server: it is running")
	}
	var err error
	p.apiServer, err = launch(p.folder, "kube-apiserver", p.options.Binaries.APIServer, append(p.secureServing(p.ports.apiServer, nil),
		"--etcd-servers="+address(p.ports.etcd),
		"--etcd-cafile="+p.path(trustedCertificate),
		"--etcd-certfile="+p.path(servingCertificate),
		"--etcd-keyfile="+p.path(servingKey),
		"--client-ca-file="+p.path(trustedCertificate),
		"--kubelet-client-certificate="+p.path(kubeletCertificate),
		"--kubelet-client-key="+p.path(kubeletKey),
		"--kubelet-preferred-address-types=InternalIP",
		// Nobody has that name, but components complain for as long as no proxy is expected.
		"--requestheader-client-ca-file="+p.path(trustedCertificate),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=Node,RBAC",
		"--runtime-config="+strings.Join(servedVersions, ","),
		"--service-account-issuer="+p.Address(),
		"--service-account-key-file="+p.path(servingKey),
		"--service-account-signing-key-file="+p.path(servingKey),
		"--service-cluster-ip-range=10.0.0.0/24",
		// Endpoints must not be on the loopback address, and nobody needs them.
		"--endpoint-reconciler-type=none",
		// It makes new nodes wait for node-lifecycle-controller, which does not run.
		"--disable-admission-plugins=TaintNodesByCondition",
	))
	if err != nil {
		return err
	}
	return p.apiServer.await(ctx, p.ready(p.ports.apiServer, "/readyz"))
}

// KillAPIServer ends the API server where it stands, with SIGKILL. Watches through it break.
func (p *ControlPlane) KillAPIServer() error { return p.apiServer.kill() }

// Address is the URL of the API server.
func (p *ControlPlane) Address() string { return address(p.ports.apiServer) }

// secureServing is how kube components are told where to listen, and what they share but for some feature gates.
func (p *ControlPlane) secureServing(port int, features map[string]bool) []string {
	return []string{
		"--bind-address=" + loopback,
		portArgument(port),
		"--tls-cert-file=" + p.path(servingCertificate),
		"--tls-private-key-file=" + p.path(servingKey),
		"--profiling=false",
		p.options.featureGates(features),
	}
}
