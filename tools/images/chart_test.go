// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	memory "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/registry"
)

// TestCharts packs each chart twice, pushes its layout to a registry, and has Helm pull and render it.
func TestCharts(t *testing.T) {
	b := builder(t)
	b.Version = "v9.8.7-rc.1"
	for chartName := range Charts {
		packages := t.TempDir()
		dir := filepath.Join(packages, chartName)
		first, err := b.WriteChart(chartName, packages, dir)
		if err != nil {
			t.Fatal(err)
		}
		again := t.TempDir()
		second, err := b.WriteChart(chartName, again, filepath.Join(again, chartName))
		if err != nil || second != first {
			t.Errorf("digests %s and %s, error %v, of the same chart", first, second, err)
		}
		packed := chartName + "-9.8.7-rc.1.tgz"
		if a, b := readFile(t, packages, packed), readFile(t, again, packed); !bytes.Equal(a, b) {
			t.Errorf("%s differs from one time to the next", packed)
		}
		compareTimes(t, readFile(t, packages, packed), b.Date)
		pulled := pullChart(t, dir, chartName, first)
		if !bytes.Equal(pulled, readFile(t, packages, packed)) {
			t.Errorf("the layout of %s has another chart than the package", chartName)
		}
		loaded, err := loader.LoadArchive(bytes.NewReader(pulled))
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Metadata.Version != "9.8.7-rc.1" || loaded.Metadata.AppVersion != b.Version {
			t.Errorf("%s has version %s, application %s", chartName, loaded.Metadata.Version, loaded.Metadata.AppVersion)
		}
		source, err := loader.LoadDir(filepath.Join(root, Charts[chartName]))
		if err != nil {
			t.Fatal(err)
		}
		compareRendered(t, loaded, source, b.Version)
	}
}

// compareTimes wants files that are as old as the commit, whenever they were checked out.
func compareTimes(t *testing.T, packed []byte, date time.Time) {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != date.Unix() {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
	}
}

// pullChart pushes a layout to a registry, as it is, and returns what Helm pulls from there.
func pullChart(t *testing.T, dir, chartName string, digest v1.Hash) []byte {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(artifact); err != nil {
		t.Error(err)
	}
	server := httptest.NewServer(memory.New(memory.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/ours/" + chartName + ":9.8.7-rc.1"
	tag, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, artifact); err != nil {
		t.Fatal(err)
	}
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(reference)
	if err != nil {
		t.Fatal(err)
	}
	if pulled.Chart.Meta.Name != chartName || pulled.Manifest.Digest != digest.String() {
		t.Errorf("pulled chart %s with digest %s, want %s with %s", pulled.Chart.Meta.Name, pulled.Manifest.Digest, chartName, digest)
	}
	return pulled.Chart.Data
}

// compareRendered wants the objects of the chart in the repository, with another image.
func compareRendered(t *testing.T, released, source *chart.Chart, version string) {
	t.Helper()
	got, want := renderChart(t, released), renderChart(t, source)
	if len(got) == 0 || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Fatalf("templates %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	images := 0
	for file, text := range got {
		for line := range strings.Lines(text) {
			if strings.Contains(line, " image: ") {
				images++
				if !strings.HasSuffix(strings.TrimSpace(line), "image: "+source.Metadata.Name+":"+version) {
					t.Errorf("%s has the line %q", file, line)
				}
			}
		}
		original := strings.ReplaceAll(want[file], source.Metadata.Name+":"+source.Metadata.AppVersion, source.Metadata.Name+":"+version)
		if text != original {
			t.Errorf("%s of the package differs from that of the repository", file)
		}
	}
	if images != 1 {
		t.Errorf("%s has %d images", source.Metadata.Name, images)
	}
}

func renderChart(t *testing.T, c *chart.Chart) map[string]string {
	t.Helper()
	release := common.ReleaseOptions{Name: "dray", Namespace: "kube-system", IsInstall: true, Revision: 1}
	scope, err := commonutil.ToRenderValues(c, map[string]any{}, release, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), c, scope)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readFile(t *testing.T, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestChartErrors(t *testing.T) {
	b := builder(t)
	if _, err := b.WriteChart("dray-agent", t.TempDir(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "remove it first") {
		t.Errorf("error %v", err)
	}
	if _, err := b.WriteChart("other", t.TempDir(), filepath.Join(t.TempDir(), "new")); err == nil || !strings.Contains(err.Error(), "chart other: ") {
		t.Errorf("error %v", err)
	}
	b.Version = "v9 and more"
	if _, err := b.WriteChart("dray-agent", t.TempDir(), filepath.Join(t.TempDir(), "new")); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("error %v", err)
	}
}
