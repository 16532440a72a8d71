// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Builder makes images. All fields are required. It may be used concurrently.
type Builder struct {
	Root      string   // of the repository
	Work      string   // folder for executables, which stay
	Platforms []string // as in linux/amd64
	Version   string   // the tag of the images
	Commit    string
	Date      time.Time // of the commit: the time of all files
}

// WriteLayout builds a program for all platforms, writes its images to dir as an OCI layout, and
// returns the digest of their index. dir must not exist.
func (b *Builder) WriteLayout(ctx context.Context, p Program, dir string) (v1.Hash, error) {
	digest, err := b.writeLayout(ctx, p, dir)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("image %s: %w", p.Name, err)
	}
	return digest, nil
}

func (b *Builder) writeLayout(ctx context.Context, p Program, dir string) (v1.Hash, error) {
	if _, err := os.Stat(dir); err == nil {
		return v1.Hash{}, fmt.Errorf("%s exists: remove it first", dir)
	}
	var images []mutate.IndexAddendum
	for _, name := range b.Platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS != "linux" || platform.Architecture == "" {
			return v1.Hash{}, fmt.Errorf("platform %q: want linux/ARCHITECTURE", name)
		}
		image, err := b.image(ctx, p, platform)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("platform %s: %w", name, err)
		}
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index := mutate.IndexMediaType(mutate.AppendManifests(empty.Index, images...), types.OCIImageIndex)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": b.Version})); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// image is that of one platform.
func (b *Builder) image(ctx context.Context, p Program, platform *v1.Platform) (v1.Image, error) {
	executable, err := b.build(ctx, p, platform)
	if err != nil {
		return nil, err
	}
	packed, err := b.pack(p, executable)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, b.config(p, platform))
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: b.Date.UTC()}, CreatedBy: "make images", Comment: p.Package},
	})
}

func (b *Builder) config(p Program, platform *v1.Platform) *v1.ConfigFile {
	config := &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant, Created: v1.Time{Time: b.Date.UTC()},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: p.User, Entrypoint: []string{p.path()}, WorkingDir: "/", Env: []string{"PATH=/usr/local/bin"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    p.Name,
				"org.opencontainers.image.source":   "https://github.com/dray-project/dray",
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.version":  b.Version,
				"org.opencontainers.image.revision": b.Commit,
			},
		},
	}
	if p.Port != "" {
		config.Config.ExposedPorts = map[string]struct{}{p.Port + "/tcp": {}}
	}
	return config
}

// path is where the program is in its image.
func (p Program) path() string { return "/usr/local/bin/" + p.Name }

// build returns the path of the executable.
func (b *Builder) build(ctx context.Context, p Program, platform *v1.Platform) (string, error) {
	executable, err := filepath.Abs(filepath.Join(b.Work, platform.OS+"_"+platform.Architecture, p.Name))
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", strings.TrimSpace("-s -w "+p.Link), "-o", executable, p.Package)
	command.Dir = filepath.Join(b.Root, p.Folder)
	// What the caller's flags say must not be seen in the image.
	command.Env = append(command.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", p.Package, err, output)
	}
	return executable, nil
}

// pack is the file system of an image, as a tar archive.
func (b *Builder) pack(p Program, executable string) ([]byte, error) {
	program, err := os.ReadFile(executable)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, entry := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/local/", 0o755, nil},
		{"usr/local/bin/", 0o755, nil},
		{strings.TrimPrefix(p.path(), "/"), 0o755, program},
	} {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Size: int64(len(entry.content)), ModTime: b.Date.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(entry.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(entry.content); err != nil {
			return nil, err
		}
	}
	err = archive.Close()
	return packed.Bytes(), err
}
