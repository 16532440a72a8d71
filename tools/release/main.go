// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release prepares a release of all published modules of the repository and of the
// programs. It changes nothing but its output folder:
//
//	proxy/          the modules as a file-system module proxy, with matching requirements
//	oci/            container images and Helm charts, each as an OCI layout
//	dist/           archives of the programs with licenses of all that is linked in, the layouts
//	                of oci as archives, packages of the charts, SBOMs, krew manifest, changelog,
//	                checksums, provenance, and with -key signatures
//	tag.sh          what puts the commit and the tags of the release into the repository
//
// Published are the root module and those nested in it which users import; the others are
// for development only. A published module requires the others at the version of the
// release and has no replace directives, so that it can be used from outside.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	r := &release{}
	var platforms string
	flag.StringVar(&r.Version, "version", "", "version, as in v0.1.0")
	flag.StringVar(&r.Root, "root", ".", "folder of the repository")
	flag.StringVar(&r.Out, "out", "bin/release", "folder to write, which must not exist")
	flag.StringVar(&platforms, "platforms", strings.Join(allPlatforms, ","), "platforms to build for; the scheduler and the agent run on Linux only")
	flag.StringVar(&r.Key, "key", "", "file with a private key in PEM, ECDSA or Ed25519, to sign checksums and provenance with")
	flag.BoolVar(&r.Uncommitted, "uncommitted", false, "release what is in the folder, committed or not: for trying")
	flag.Parse()
	r.Platforms = strings.Split(platforms, ",")
	if err := r.run(); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s\n", err)
		os.Exit(1)
	}
}

var allPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// release is what is to be released, and where to.
type release struct {
	Version     string
	Root, Out   string
	Platforms   []string
	Uncommitted bool
	Key         string

	commit  string
	modules []*module
}

func (r *release) run() error {
	if semver.Canonical(r.Version) != r.Version || r.Version == "" {
		return fmt.Errorf("-version %q: want a semantic version, as in v0.1.0", r.Version)
	}
	if _, err := os.Stat(r.Out); err == nil {
		return fmt.Errorf("%s exists: remove it first", r.Out)
	}
	if err := r.prepare(); err != nil {
		return err
	}
	for _, step := range []func() error{r.writeProxy, r.writeTags, r.writeDist} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Printf("%s is prepared in %s: read it, then run %s\n", r.Version, r.Out, filepath.Join(r.Out, "tag.sh"))
	return nil
}

// writeDist writes what is downloaded.
func (r *release) writeDist() error {
	for _, step := range []func() error{r.writeArchives, r.writeImages, r.writeSBOMs, r.writeKrew, r.writeChangelog, r.writeChecksums, r.writeProvenance, r.writeSignatures} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// prepare looks at the repository.
func (r *release) prepare() error {
	var err error
	if r.Root, err = filepath.Abs(r.Root); err != nil {
		return err
	}
	if r.Out, err = filepath.Abs(r.Out); err != nil {
		return err
	}
	if r.commit, err = r.git("rev-parse", "HEAD"); err != nil {
		return err
	}
	changes, err := r.git("status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" && !r.Uncommitted {
		return fmt.Errorf("the repository has changes that are not committed")
	}
	if r.modules, err = r.findModules(); err != nil {
		return err
	}
	return os.MkdirAll(r.dist(), 0o755)
}

func (r *release) dist() string { return filepath.Join(r.Out, "dist") }
