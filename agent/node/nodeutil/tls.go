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

// WithTLSConfig sets the TLS config of the server: TLS 1.2 and later, DefaultServerCiphers,
// and clients are asked for certificates, which WithAuth looks at. Options change it.
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

// WithCAFromPath requires certificates of clients, of authorities in a PEM file.
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

// WithCACert adds certificate authorities of clients, in PEM.
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

// DefaultServerCiphers are those that the Go library takes for secure, for TLS 1.2.
func DefaultServerCiphers() []uint16 {
	var ciphers []uint16
	for _, suite := range tls.CipherSuites() {
		ciphers = append(ciphers, suite.ID)
	}
	return ciphers
}
