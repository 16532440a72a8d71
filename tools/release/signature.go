// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/in-toto/in-toto-golang/in_toto"
	"github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/common"
	slsa "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// The files that are about all others.
const (
	checksumsFile  = "checksums.txt"
	provenanceFile = "provenance.intoto.json"
)

// writeChecksums lists the SHA-256 of each file, as sha256sum does.
func (r *release) writeChecksums() error {
	names, err := r.artifacts()
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, name := range names {
		sum, err := r.checksum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(r.dist(), checksumsFile), []byte(lines.String()), 0o644)
}

// artifacts are the files of dist that are not about all others.
func (r *release) artifacts() ([]string, error) {
	entries, err := os.ReadDir(r.dist())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); entry.Type().IsRegular() && !strings.HasPrefix(name, checksumsFile) && !strings.HasPrefix(name, provenanceFile) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (r *release) checksum(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.dist(), name))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// writeProvenance says from which sources and by which command the files were made: a statement of SLSA v1. It has no
// time, so that whoever makes them again gets the same statement.
func (r *release) writeProvenance() error {
	names, err := r.artifacts()
	if err != nil {
		return err
	}
	statement := in_toto.ProvenanceStatementSLSA1{
		StatementHeader: in_toto.StatementHeader{Type: in_toto.StatementInTotoV1, PredicateType: slsa.PredicateSLSAProvenance},
		Predicate: slsa.ProvenancePredicate{
			BuildDefinition: slsa.ProvenanceBuildDefinition{
				BuildType:          "https://github.com/dray-project/dray/blob/main/tools/release/main.go",
				ExternalParameters: map[string]any{"version": r.Version, "platforms": r.Platforms},
				ResolvedDependencies: []slsa.ResourceDescriptor{{
					URI: "git+https://github.com/dray-project/dray", Digest: common.DigestSet{"gitCommit": r.commit},
				}},
			},
			RunDetails: slsa.ProvenanceRunDetails{Builder: slsa.Builder{ID: "https://github.com/dray-project/dray/blob/main/tools/release"}},
		},
	}
	for _, name := range names {
		sum, err := r.checksum(name)
		if err != nil {
			return err
		}
		statement.Subject = append(statement.Subject, in_toto.Subject{Name: name, Digest: common.DigestSet{"sha256": sum}})
	}
	text, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist(), provenanceFile), append(text, '\n'), 0o644)
}

// writeSignatures signs the checksums and the provenance, if there is a key: checksums.txt.sig is what
// `openssl dgst -sha256 -verify` and `cosign verify-blob --key` take (in base64), provenance.intoto.jsonl an envelope as DSSE
// describes it.
func (r *release) writeSignatures() error {
	if r.Key == "" {
		return nil
	}
	key, err := readKey(r.Key)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Key, err)
	}
	checksums, err := os.ReadFile(filepath.Join(r.dist(), checksumsFile))
	if err != nil {
		return err
	}
	signature, err := key.Sign(context.Background(), checksums)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dist(), checksumsFile+".sig"), []byte(base64.StdEncoding.EncodeToString(signature)+"\n"), 0o644); err != nil {
		return err
	}
	statement, err := os.ReadFile(filepath.Join(r.dist(), provenanceFile))
	if err != nil {
		return err
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return err
	}
	envelope, err := signer.SignPayload(context.Background(), in_toto.PayloadType, statement)
	if err != nil {
		return err
	}
	text, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist(), provenanceFile+"l"), append(text, '\n'), 0o644)
}

// key signs with an ECDSA or an Ed25519 key.
type key struct{ crypto.Signer }

// readKey reads a private key in PEM (PKCS #8, or SEC 1 for ECDSA), not encrypted.
func readKey(path string) (*key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("not a key in PEM")
	}
	if elliptic, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return &key{elliptic}, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	switch parsed := parsed.(type) {
	case *ecdsa.PrivateKey:
		return &key{parsed}, nil
	case ed25519.PrivateKey:
		return &key{parsed}, nil
	}
	return nil, fmt.Errorf("a key of type %T: want ECDSA or Ed25519", parsed)
}

// Sign implements dsse.Signer.
func (k *key) Sign(_ context.Context, data []byte) ([]byte, error) {
	if private, ok := k.Signer.(ed25519.PrivateKey); ok {
		return ed25519.Sign(private, data), nil
	}
	sum := sha256.Sum256(data)
	return k.Signer.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// KeyID implements dsse.Signer: the SHA-256 of the public key.
func (k *key) KeyID() (string, error) {
	public, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:]), nil
}
