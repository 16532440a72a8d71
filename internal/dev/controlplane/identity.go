// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/tls"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// SchedulerUser is whom the scheduler acts as.
const SchedulerUser = "system:kube-scheduler"

// Others that the API server knows from the start.
const (
	administrators  = "system:masters"
	controllersUser = "system:kube-controller-manager"
)

// ConfigFor configures clients that act as a user in the groups given. The user need not
// exist, and may do what its roles allow, which is nearly nothing for a new one.
func (p *ControlPlane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	identity, err := p.authority.issue(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: p.Address(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   p.trusted,
			CertData: identity.certificate,
			KeyData:  identity.key,
		},
		// The caller's own pace, rather than that of a client among many.
		QPS: -1,
	}, nil
}

// ServingCertificate is one that clients of the control plane trust on this machine.
func (p *ControlPlane) ServingCertificate() (tls.Certificate, error) {
	return tls.LoadX509KeyPair(p.path(servingCertificate), p.path(servingKey))
}

// writeKubeconfig writes a kubeconfig with which a program acts as config does, and
// returns its path.
func (p *ControlPlane) writeKubeconfig(name string, config *rest.Config) (string, error) {
	file := clientcmdapi.NewConfig()
	file.Clusters["dray"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts["dray"] = &clientcmdapi.Context{Cluster: "dray", AuthInfo: name}
	file.CurrentContext = "dray"
	path := filepath.Join(p.folder, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// WriteIdentity writes the kubeconfig of a new user.
func (p *ControlPlane) WriteIdentity(name, user string, groups ...string) (string, error) {
	config, err := p.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	return p.writeKubeconfig(name, config)
}
