// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	memory "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/registry"
)

// Charts are the folders of the repository's Helm charts, below its root, by name.
var Charts = map[string]string{"dray-agent": "agent/deploy/chart", "dray-scheduler": "schedplugin/deploy/chart"}

// WriteChart packs a Helm chart of the repository into the file packages/NAME-VERSION.tgz, writes it to
// dir as an OCI layout, too, and returns the digest of its manifest. The chart has the version of the
// release, and names the image of that version. dir must not exist. Root, Version and Date of the
// builder are used.
func (b *Builder) WriteChart(chartName, packages, dir string) (v1.Hash, error) {
	digest, err := b.writeChart(chartName, packages, dir)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("chart %s: %w", chartName, err)
	}
	return digest, nil
}

func (b *Builder) writeChart(chartName, packages, dir string) (v1.Hash, error) {
	if _, err := os.Stat(dir); err == nil {
		return v1.Hash{}, fmt.Errorf("%s exists: remove it first", dir)
	}
	loaded, err := loader.LoadDir(filepath.Join(b.Root, Charts[chartName]))
	if err != nil {
		return v1.Hash{}, err
	}
	if err := b.stamp(loaded); err != nil {
		return v1.Hash{}, err
	}
	file, err := util.Save(loaded, packages)
	if err != nil {
		return v1.Hash{}, err
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		return v1.Hash{}, err
	}
	return b.publish(packed, loaded.Metadata, dir)
}

var imageLine = regexp.MustCompile(`(?m)^(\s+image: [a-z-]+:)\S+$`)

// stamp puts the version of the release into a chart: its own, and the tag of its image.
func (b *Builder) stamp(c *chart.Chart) error {
	c.Metadata.Version, c.Metadata.AppVersion = strings.TrimPrefix(b.Version, "v"), b.Version
	images := 0
	for _, file := range c.Files {
		if !strings.HasPrefix(file.Name, "base/") {
			continue
		}
		images += len(imageLine.FindAll(file.Data, -1))
		file.Data = imageLine.ReplaceAll(file.Data, []byte("${1}"+b.Version))
	}
	if images != 1 {
		return fmt.Errorf("base/ names %d images, want one", images)
	}
	c.StampModTimes(b.Date)
	return nil
}

// publish has Helm's client push a packed chart to a registry in memory, and writes what is there then to dir.
func (b *Builder) publish(packed []byte, metadata *chart.Metadata, dir string) (v1.Hash, error) {
	server := httptest.NewServer(memory.New(memory.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		return v1.Hash{}, err
	}
	// In a tag, + is not allowed: Helm writes _ for it.
	reference := fmt.Sprintf("%s/charts/%s:%s", strings.TrimPrefix(server.URL, "http://"), metadata.Name, metadata.Version)
	pushed, err := client.Push(packed, reference, registry.PushOptCreationTime(b.Date.UTC().Format(time.RFC3339)))
	if err != nil {
		return v1.Hash{}, err
	}
	parsed, err := name.ParseReference(pushed.Ref, name.Insecure)
	if err != nil {
		return v1.Hash{}, err
	}
	artifact, err := remote.Image(parsed)
	if err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendImage(artifact, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": parsed.Identifier()})); err != nil {
		return v1.Hash{}, err
	}
	return artifact.Digest()
}
