// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	orasremote "oras.land/oras-go/v2/registry/remote"
)

// TestRegistry has another library read a layout and push it, and pulls what the registry has then.
func TestRegistry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hello")
	digest, err := builder(t).WriteLayout(t.Context(), hello, dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/dray/hello"

	store, err := oci.NewFromFS(t.Context(), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	target, err := orasremote.NewRepository(repository)
	if err != nil {
		t.Fatal(err)
	}
	target.PlainHTTP = true
	pushed, err := oras.Copy(t.Context(), store, "v9", target, "", oras.DefaultCopyOptions)
	if err != nil || pushed.Digest.String() != digest.String() {
		t.Fatalf("pushed %s, error %v, want %s", pushed.Digest, err, digest)
	}

	tag, err := name.NewTag(repository + ":v9")
	if err != nil {
		t.Fatal(err)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		image, err := remote.Image(tag, remote.WithPlatform(platform), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		compareImage(t, image, &platform)
	}
}
