// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity is how long certificates last: longer than anybody keeps a control plane.
const validity = 30 * 24 * time.Hour

// authority signs the certificates of one control plane. Its key is never written down.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// credential is a certificate with its private key, PEM-encoded.
type credential struct {
	certificate, key []byte
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "dray-controlplane"}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return &authority{certificate: certificate, key: key}, nil
}

// pem is the certificate that others trust.
func (a *authority) pem() ([]byte, error) {
	return cert.EncodeCertificates(a.certificate)
}

// issue signs a certificate that serves on the loopback address and identifies a user,
// the organizations being the user's groups.
func (a *authority) issue(name string, organizations ...string) (credential, error) {
	key, err := newKey()
	if err != nil {
		return credential{}, err
	}
	signed, err := a.sign(name, organizations, key)
	if err != nil {
		return credential{}, fmt.Errorf("certificate of %s: %w", name, err)
	}
	return encode(signed, key)
}

func (a *authority) sign(name string, organizations []string, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: organizations},
		DNSNames:     []string{"localhost", "kubernetes.default.svc"}, // pods use the second
		IPAddresses:  []net.IP{net.ParseIP(loopback)},
		NotBefore:    a.certificate.NotBefore,
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return key, nil
}

func encode(certificate *x509.Certificate, key *ecdsa.PrivateKey) (credential, error) {
	public, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return credential{}, fmt.Errorf("encode certificate: %w", err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return credential{}, fmt.Errorf("encode private key: %w", err)
	}
	return credential{certificate: public, key: private}, nil
}
