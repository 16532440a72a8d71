// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
)

// launchEtcd starts etcd, which only those with a certificate of the authority may use.
func (p *ControlPlane) launchEtcd(ctx context.Context) error {
	peer := address(p.ports.etcdPeer)
	var err error
	p.etcd, err = launch(p.folder, "etcd", p.options.Binaries.Etcd, []string{
		"--name=dray",
		"--data-dir=" + p.path("etcd"),
		"--listen-client-urls=" + address(p.ports.etcd),
		"--advertise-client-urls=" + address(p.ports.etcd),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=dray=" + peer,
		"--cert-file=" + p.path(servingCertificate),
		"--key-file=" + p.path(servingKey),
		"--trusted-ca-file=" + p.path(trustedCertificate),
		"--client-cert-auth",
		"--peer-cert-file=" + p.path(servingCertificate),
		"--peer-key-file=" + p.path(servingKey),
		"--peer-trusted-ca-file=" + p.path(trustedCertificate),
		"--peer-client-cert-auth",
		// What it holds need not survive the machine.
		"--unsafe-no-fsync",
		"--log-level=warn",
	})
	if err != nil {
		return err
	}
	return p.etcd.await(ctx, p.dialEtcd)
}

// dialEtcd succeeds once etcd serves clients, which is when it has a leader.
func (p *ControlPlane) dialEtcd(ctx context.Context) error {
	dialer := tls.Dialer{Config: p.dialing}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(p.ports.etcd)))
	if err != nil {
		return fmt.Errorf("dial etcd: %w", err)
	}
	return connection.Close()
}
