package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name    string
	content []byte
	mode    fs.FileMode
}

// writeArchives builds the command line for each platform and packs it with its license,
// README, manual pages and completions.
func (r *release) writeArchives() error {
	common, err := r.commonFiles()
	if err != nil {
		return err
	}
	date, err := r.git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	modified, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	for _, platform := range r.Platforms {
		binary, err := r.build(platform)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		entries := append([]entry{{filepath.Base(binary), content, 0o755}}, common...)
		pack := tarball
		if strings.HasPrefix(platform, "windows/") {
			pack = zipball
		}
		packed, err := pack(entries, modified)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.dist(), r.archive(platform)), packed, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archive is the file name for a platform.
func (r *release) archive(platform string) string {
	extension := ".tar.gz"
	if strings.HasPrefix(platform, "windows/") {
		extension = ".zip"
	}
	return fmt.Sprintf("dray_%s_%s%s", r.Version, strings.ReplaceAll(platform, "/", "_"), extension)
}

// build builds the command line with version and commit in it. It depends on nothing else.
func (r *release) build(platform string) (string, error) {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("platform %q: want SYSTEM/ARCHITECTURE", platform)
	}
	binary := filepath.Join(r.Out, "build", system+"_"+architecture, "dray")
	if system == "windows" {
		binary += ".exe"
	}
	const variables = "github.com/dray-project/dray/cmd/dray/internal/cli."
	flags := fmt.Sprintf("-s -w -X %[1]sreleaseVersion=%[2]s -X %[1]sreleaseCommit=%[3]s", variables, r.Version, r.commit)
	_, err := r.command("go", []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture},
		"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary, "./cmd/dray")
	return binary, err
}

// commonFiles are the same on all platforms.
func (r *release) commonFiles() ([]entry, error) {
	var files []entry
	for _, name := range []string{"LICENSE", "README.md"} {
		content, err := os.ReadFile(filepath.Join(r.Root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name, content, 0o644})
	}
	native, err := r.build(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	manual := filepath.Join(r.Out, "build", "man")
	if err := os.MkdirAll(manual, 0o755); err != nil {
		return nil, err
	}
	if _, err := r.command(native, nil, "man", manual); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(manual, "*.1"))
	if err != nil {
		return nil, err
	}
	slices.Sort(pages)
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{"man/" + filepath.Base(page), content, 0o644})
	}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		script, err := r.command(native, nil, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{"completions/dray." + shell, []byte(script + "\n"), 0o644})
	}
	return files, nil
}

func tarball(entries []entry, modified time.Time) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: int64(e.mode), ModTime: modified, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), compressed.Close())
	return packed.Bytes(), err
}

func zipball(entries []entry, modified time.Time) ([]byte, error) {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(e.mode)
		out, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return packed.Bytes(), err
}

// writeChecksums lists the SHA-256 of each archive, as sha256sum does.
func (r *release) writeChecksums() error {
	var lines strings.Builder
	for _, platform := range r.Platforms {
		sum, err := r.checksum(platform)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, r.archive(platform))
	}
	return os.WriteFile(filepath.Join(r.dist(), "checksums.txt"), []byte(lines.String()), 0o644)
}

func (r *release) checksum(platform string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.dist(), r.archive(platform)))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
