package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// prepared is a control plane of which nothing runs.
func prepared(t *testing.T, options Options) *ControlPlane {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "dray-scheduler"} {
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
	for _, want := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "dray-scheduler"} {
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
	path, err := p.writeIdentity("someone", "system:someone", "people")
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

func TestSchedulerConfiguration(t *testing.T) {
	config, err := schedulerConfiguration(InTree)
	if err != nil || len(config.Profiles) != 0 {
		t.Errorf("in-tree: profiles %v, %v", config.Profiles, err)
	}
	if config, err = schedulerConfiguration(Dray); err != nil {
		t.Fatal(err)
	}
	points := config.Profiles[0].Plugins
	if points.MultiPoint.Disabled[0].Name != "DynamicResources" || points.MultiPoint.Enabled[0].Name != "Dray" || points.PostFilter.Enabled[0].Name != "Dray" {
		t.Errorf("dray: %+v", points)
	}
}

func TestFeatureGates(t *testing.T) {
	options := Options{Features: map[string]bool{"GenericWorkload": false, "ZZZ": true}}
	gates := options.featureGates()
	if !strings.HasPrefix(gates, "--feature-gates=DRADerivedAttributes=true,") || !strings.Contains(gates, ",GenericWorkload=false,") || !strings.HasSuffix(gates, ",ZZZ=true") {
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
