// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
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

// entry is a file of an archive, or a link to another one.
type entry struct {
	name    string
	content []byte
	mode    fs.FileMode
	link    string
}

// writeArchives builds each program for its platforms and packs it with licenses, README, manual pages and
// completions.
func (r *release) writeArchives() error {
	modified, err := r.date()
	if err != nil {
		return err
	}
	for _, p := range r.programs() {
		common, err := r.commonFiles(p)
		if err != nil {
			return err
		}
		for _, platform := range r.platformsOf(p) {
			if err := r.writeArchive(p, platform, common, modified); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) writeArchive(p program, platform string, common []entry, modified time.Time) error {
	binary, err := r.build(p, platform)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	licenses, err := r.licenses(p, platform)
	if err != nil {
		return err
	}
	entries := append([]entry{{name: filepath.Base(binary), content: content, mode: 0o755}, {name: "LICENSES.txt", content: licenses, mode: 0o644}}, common...)
	packAs := tarball
	if strings.HasPrefix(platform, "windows/") {
		packAs = zipball
	} else if p.plugin {
		// By this name kubectl finds what completes a plugin.
		entries = append(entries, entry{name: "kubectl_complete-" + p.name, link: p.name})
	}
	packed, err := packAs(entries, modified)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist(), r.archive(p, platform)), packed, 0o644)
}

// archive is the file name for a platform.
func (r *release) archive(p program, platform string) string {
	extension := ".tar.gz"
	if strings.HasPrefix(platform, "windows/") {
		extension = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s%s", p.name, r.Version, strings.ReplaceAll(platform, "/", "_"), extension)
}

// commonFiles are the same on all platforms.
func (r *release) commonFiles(p program) ([]entry, error) {
	var files []entry
	for name, from := range map[string]string{"LICENSE": "LICENSE", "README.md": p.readme} {
		content, err := os.ReadFile(filepath.Join(r.Root, from))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: name, content: content, mode: 0o644})
	}
	slices.SortFunc(files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	if p.plugin {
		examples, err := r.exampleFiles()
		if err != nil {
			return nil, err
		}
		files = append(files, examples...)
	}
	native, err := r.build(p, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	manual := filepath.Join(r.Out, "build", "man", p.name)
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
		files = append(files, entry{name: "man/" + filepath.Base(page), content: content, mode: 0o644})
	}
	for _, shell := range []struct{ name, file string }{{"bash", p.name + ".bash"}, {"fish", p.name + ".fish"}, {"powershell", p.name + ".ps1"}, {"zsh", "_" + p.name}} {
		script, err := r.command(native, nil, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: "completions/" + shell.file, content: []byte(script + "\n"), mode: 0o644})
	}
	return files, nil
}

// exampleFiles are those of docs/start.md and of the README, so that there is something to ask about.
func (r *release) exampleFiles() ([]entry, error) {
	var files []entry
	for _, example := range []string{"fleet-200", "gpu-nic-pcie", "single-gpu"} {
		paths, err := filepath.Glob(filepath.Join(r.Root, "examples", example, "*"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, entry{name: "examples/" + example + "/" + filepath.Base(path), content: content, mode: 0o644})
		}
	}
	return files, nil
}

func tarball(entries []entry, modified time.Time) ([]byte, error) {
	plain, err := pack(entries, modified)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	_, err = compressed.Write(plain)
	err = errors.Join(err, compressed.Close())
	return packed.Bytes(), err
}

func pack(entries []entry, modified time.Time) ([]byte, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: int64(e.mode), ModTime: modified, Format: tar.FormatPAX}
		if e.link != "" {
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.link, 0o777
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
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
