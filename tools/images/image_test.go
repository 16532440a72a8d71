// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const root = "../.."

var hello = Program{Name: "hello", Folder: "tools/images", Package: "./testdata/hello", Link: "-X main.version=v9", User: nobody, Port: "80"}

func builder(t *testing.T) *Builder {
	t.Helper()
	return &Builder{
		Root: root, Work: t.TempDir(), Platforms: []string{"linux/amd64", "linux/arm64"},
		Version: "v9", Commit: "abc", Date: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600)),
	}
}

// TestLayout builds an image twice, reads it back, and runs the program that is in it.
func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hello")
	first, err := builder(t).WriteLayout(t.Context(), hello, dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := builder(t).WriteLayout(t.Context(), hello, filepath.Join(t.TempDir(), "hello"))
	if err != nil || second != first {
		t.Errorf("digests %s and %s, error %v, of the same image", first, second, err)
	}
	other := builder(t)
	other.Date = other.Date.Add(time.Hour)
	if later, err := other.WriteLayout(t.Context(), hello, filepath.Join(t.TempDir(), "hello")); err != nil || later == first {
		t.Errorf("digest %s, error %v, of another commit", later, err)
	}

	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Digest != first || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v9" {
		t.Errorf("the layout has %+v", top.Manifests)
	}
	images, err := index.ImageIndex(first)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := images.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := images.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		compareImage(t, image, descriptor.Platform)
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %v", platforms)
	}
}

func compareImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	_, port := config.Config.ExposedPorts["80/tcp"]
	if config.Architecture != platform.Architecture || config.Config.User != nobody || !port || config.Config.Labels["org.opencontainers.image.revision"] != "abc" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/hello"}) {
		t.Errorf("%s: configuration %+v", platform, config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, error %v", len(layers), err)
	}
	files := unpack(t, layers[0])
	if platform.Architecture != runtime.GOARCH {
		return
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, files["usr/local/bin/hello"], 0o700); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), program).Output(); err != nil || string(output) != "hello v9\n" {
		t.Errorf("the program in the image prints %q, error %v", output, err)
	}
}

// unpack returns the files of a layer. They are as in any other build of the same commit.
func unpack(t *testing.T, layer v1.Layer) map[string][]byte {
	t.Helper()
	stream, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	files := make(map[string][]byte)
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != builder(t).Date.Unix() {
			t.Errorf("%s belongs to %d:%d, and is of %s", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrors(t *testing.T) {
	there := t.TempDir()
	for want, change := range map[string]func(*Builder, *Program){
		"remove it first":   nil,
		`platform "darwin"`: func(b *Builder, _ *Program) { b.Platforms = []string{"darwin"} },
		"image hello: platform linux/amd64: build ./nothing": func(_ *Builder, p *Program) { p.Package = "./nothing" },
	} {
		b, p, dir := builder(t), hello, filepath.Join(there, "new")
		if change == nil {
			dir = there
		} else {
			change(b, &p)
		}
		if _, err := b.WriteLayout(t.Context(), p, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestDockerfiles compares what images are made of with the Dockerfiles, for who builds with these.
func TestDockerfiles(t *testing.T) {
	programs, err := Programs(root, "${VERSION}", "${COMMIT}")
	if err != nil {
		t.Fatal(err)
	}
	dockerfiles := 0
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(root, p.Folder, p.Package, "main.go")); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		text, err := os.ReadFile(filepath.Join(root, p.Folder, "deploy", "Dockerfile"))
		if err != nil || p.Folder == "." {
			continue
		}
		dockerfiles++
		for _, line := range []string{
			"USER " + p.User, "EXPOSE " + p.Port, fmt.Sprintf("ENTRYPOINT [%q]", p.path()), p.Package,
			"-ldflags \"" + strings.TrimSpace("-s -w "+p.Link) + "\"", "ARG VERSION=v0.0.0-dev", "GO=golang:" + goVersion(t),
		} {
			if !strings.Contains(string(text), line) {
				t.Errorf("the Dockerfile of %s has no %q", p.Name, line)
			}
		}
	}
	if dockerfiles != 2 {
		t.Errorf("%d Dockerfiles", dockerfiles)
	}
}

func goVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	return string(regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(text)[1])
}
