// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// WithTLSConfig sets the TLS configuration of the server: TLS 1.2 or later, with
// DefaultServerCiphers. It requests client certificates, which WithAuth verifies. Options may
// change it.
func WithTLSConfig(opts ...func(*tls.Config) error) NodeOpt {
	return func(cfg *NodeConfig) error {
		config := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: DefaultServerCiphers(), ClientAuth: tls.RequestClientCert}
		for _, o := range opts {
			if err := o(config); err != nil {
				return err
			}
		}
		cfg.TLSConfig = config
		return nil
	}
}

// WithCAFromPath requires client certificates, signed by an authority in a PEM file.
func WithCAFromPath(p string) func(*tls.Config) error {
	return func(config *tls.Config) error {
		pem, err := os.ReadFile(p)
		if err != nil {
			return fmt.Errorf("certificate authorities: %w", err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		return WithCACert(pem)(config)
	}
}

// WithKeyPairFromPath adds a certificate and its key, in PEM files.
func WithKeyPairFromPath(cert, key string) func(*tls.Config) error {
	return func(config *tls.Config) error {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return err
		}
		config.Certificates = append(config.Certificates, pair)
		return nil
	}
}

// WithCACert adds authorities of client certificates, in PEM format.
func WithCACert(pem []byte) func(*tls.Config) error {
	return func(config *tls.Config) error {
		if config.ClientCAs == nil {
			config.ClientCAs = x509.NewCertPool()
		}
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return errors.New("certificate authorities: no certificate in PEM")
		}
		return nil
	}
}

// DefaultServerCiphers returns the cipher suites for TLS 1.2 that Go's crypto/tls considers secure.
func DefaultServerCiphers() []uint16 {
	var ciphers []uint16
	for _, suite := range tls.CipherSuites() {
		ciphers = append(ciphers, suite.ID)
	}
	return ciphers
}
