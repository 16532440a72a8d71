// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// date is that of the commit: all files have it.
func (r *release) date() (time.Time, error) {
	date, err := r.git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, date)
}

// writeImages makes the container images and the Helm charts. What downloads or pushes them takes an
// archive of the layout: `skopeo copy oci-archive:…`, `oras cp --from-oci-layout`, and Helm the package.
func (r *release) writeImages() error {
	var platforms []string
	for _, platform := range r.Platforms {
		if strings.HasPrefix(platform, "linux/") {
			platforms = append(platforms, platform)
		}
	}
	if len(platforms) == 0 {
		return nil
	}
	layouts := filepath.Join(r.Out, "oci")
	// A module of its own: what reads charts does not go with what checks the krew manifest.
	_, err := r.command("go", []string{"GOWORK=off"}, "-C", filepath.Join(r.Root, "tools", "images"), "run", "./build",
		"-root", r.Root, "-version", r.Version, "-platforms", strings.Join(platforms, ","), "-work", filepath.Join(r.Out, "build", "images"),
		"-out", filepath.Join(layouts, "images"), "-charts", filepath.Join(layouts, "charts"))
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(layouts, "charts", "*.tgz"))
	if err != nil {
		return err
	}
	for _, file := range packages {
		if err := os.Rename(file, filepath.Join(r.dist(), filepath.Base(file))); err != nil {
			return err
		}
	}
	for _, kind := range []string{"image", "chart"} {
		folders, err := os.ReadDir(filepath.Join(layouts, kind+"s"))
		if err != nil {
			return err
		}
		for _, folder := range folders {
			archive := fmt.Sprintf("%s_%s_%s.oci.tar", folder.Name(), r.Version, kind)
			if err := r.packLayout(filepath.Join(layouts, kind+"s", folder.Name()), archive); err != nil {
				return err
			}
		}
	}
	return nil
}

// packLayout writes the files of a folder to an archive in dist.
func (r *release) packLayout(folder, archive string) error {
	modified, err := r.date()
	if err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(folder, func(path string, file fs.DirEntry, err error) error {
		if err != nil || file.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		entries = append(entries, entry{name: filepath.ToSlash(name), content: content, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	packed, err := pack(entries, modified)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist(), archive), packed, 0o644)
}
