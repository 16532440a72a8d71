// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command build writes images of the repository's programs, each as an OCI layout, and with -charts its
// Helm charts, each as a package and as an OCI layout:
//
//	build -out bin/images dray-agent
//
// What builds and runs containers takes them from there: `skopeo copy oci:bin/images/dray-agent
// docker://…`, `crane push`, `podman pull oci:…`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dray-project/dray/tools/images"
)

func main() {
	b := &images.Builder{}
	var platforms, out, charts string
	flag.StringVar(&b.Root, "root", ".", "folder of the repository")
	flag.StringVar(&out, "out", "bin/images", "folder to write, with a folder for each image, which must not exist")
	flag.StringVar(&charts, "charts", "", "folder to write Helm charts to, with a package and a folder for each, which must not exist")
	flag.StringVar(&b.Work, "work", "bin/images-build", "folder for executables")
	flag.StringVar(&b.Version, "version", "v0.0.0-dev", "version, which is the tag")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms to build for")
	flag.Parse()
	b.Platforms = strings.Split(platforms, ",")
	if err := run(b, out, charts, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s\n", err)
		os.Exit(1)
	}
}

// run builds the images with these names, or all, and the charts if there is a folder for them.
func run(b *images.Builder, out, charts string, names []string) error {
	if err := commit(b); err != nil {
		return err
	}
	programs, err := images.Programs(b.Root, b.Version, b.Commit)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(programs, func(p images.Program) bool { return p.Name == name }) {
			return fmt.Errorf("there is no image %s", name)
		}
	}
	for _, p := range programs {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		dir := filepath.Join(out, p.Name)
		digest, err := b.WriteLayout(context.Background(), p, dir)
		if err != nil {
			return err
		}
		fmt.Printf("%s:%s %s %s\n", p.Name, b.Version, digest, dir)
	}
	if charts == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(images.Charts)) {
		dir := filepath.Join(charts, name)
		digest, err := b.WriteChart(name, charts, dir)
		if err != nil {
			return err
		}
		fmt.Printf("chart %s %s %s\n", name, digest, dir)
	}
	return nil
}

// commit finds out what is built, and from when it is.
func commit(b *images.Builder) error {
	command := exec.Command("git", "show", "-s", "--format=%H %cI", "HEAD")
	command.Dir = b.Root
	output, err := command.Output()
	if err != nil {
		return errors.Join(errors.New("git show"), err)
	}
	hash, date, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	b.Commit = hash
	b.Date, err = time.Parse(time.RFC3339, date)
	return err
}
