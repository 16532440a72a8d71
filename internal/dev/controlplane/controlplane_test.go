// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

// prepared is a control plane of which nothing runs.
func prepared(t *testing.T, options Options) *ControlPlane {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "dray-scheduler", "scheduler-config.yaml"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if options.Binaries, err = BinariesIn(folder); err != nil {
		t.Fatal(err)
	}
	p, err := prepare(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestBinariesInNamesAllMissing(t *testing.T) {
	_, err := BinariesIn(t.TempDir())
	for _, want := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "dray-scheduler", "scheduler-config.yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}

func TestStopRemovesFolder(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p := prepared(t, Options{})
		if keep {
			p.KeepFolder()
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(p.Folder()); os.IsNotExist(err) == keep {
			t.Errorf("keep %t: %v", keep, err)
		}
		if err := os.RemoveAll(p.Folder()); err != nil {
			t.Error(err)
		}
	}
}

func TestIdentities(t *testing.T) {
	p := prepared(t, Options{})
	path, err := p.WriteIdentity("someone", "system:someone", "people")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(config.CertData)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != p.Address() || certificate.Subject.CommonName != "system:someone" || !slices.Equal(certificate.Subject.Organization, []string{"people"}) {
		t.Errorf("%s is %s at %s", path, certificate.Subject, config.Host)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(config.CAData)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: trusted, DNSName: loopback, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

// deployed is a configuration as it is deployed.
const deployed = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Dray}]}}
`

func TestSchedulerConfiguration(t *testing.T) {
	p := prepared(t, Options{Scheduler: Dray})
	text := deployed + "  pluginConfig: [{name: Dray, args: {explain: Event}}]\n"
	if err := os.WriteFile(p.options.Binaries.SchedulerConfiguration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.SetPluginArguments(`{"policy":"pack"}`)
	path, err := p.schedulerConfig("/somewhere/kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: kubescheduler.config.k8s.io/v1
clientConnection:
  burst: 1000
  kubeconfig: /somewhere/kubeconfig
  qps: 500
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
podMaxBackoffSeconds: 1
profiles:
- pluginConfig:
  - args:
      policy: pack
    name: Dray
  plugins:
    multiPoint:
      enabled:
      - name: Dray
  schedulerName: default-scheduler
`
	if diff := cmp.Diff(want, string(written)); diff != "" {
		t.Error(diff)
	}
}

func TestSchedulerConfigurationInTree(t *testing.T) {
	p := prepared(t, Options{Scheduler: InTree})
	config, err := p.options.schedulerConfiguration()
	if err != nil || config["profiles"] != nil {
		t.Errorf("profiles %v, %v", config["profiles"], err)
	}
	p.SetPluginArguments("{}")
	if _, err := p.schedulerConfig("kubeconfig"); err == nil || !strings.Contains(err.Error(), "no profile") {
		t.Errorf("arguments for a plugin that is not there: %v", err)
	}
}

func TestFeatureGates(t *testing.T) {
	options := Options{Features: map[string]bool{"GenericWorkload": false, "ZZZ": true}}
	gates := options.featureGates(map[string]bool{"AAA": true})
	if !strings.HasPrefix(gates, "--feature-gates=AAA=true,DRADerivedAttributes=true,") || !strings.Contains(gates, ",GenericWorkload=false,") || !strings.HasSuffix(gates, ",ZZZ=true") {
		t.Error(gates)
	}
}

func TestSchedulerSet(t *testing.T) {
	s := InTree
	if err := s.Set("dray"); err != nil || s != Dray {
		t.Errorf("got %s, %v", s, err)
	}
	if err := s.Set("none"); err == nil || s != Dray {
		t.Errorf("got %s, %v", s, err)
	}
}
