// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// Program is one that images are made of.
type Program struct {
	Name    string // of image and executable
	Folder  string // of its module, below the root of the repository
	Package string // as the go command takes it, in that folder
	Link    string // what the linker is told besides -s -w
	User    string // UID:GID that it runs as
	Port    string // that it serves, if any
}

// Programs are those of the repository at root, with a version and a commit in them.
func Programs(root, version, commit string) ([]Program, error) {
	kubernetes, err := required(filepath.Join(root, "schedplugin", "go.mod"), "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(strings.TrimPrefix(kubernetes, "v"), ".", 3)
	if len(parts) != 3 {
		return nil, fmt.Errorf("version %q of Kubernetes: want three numbers", kubernetes)
	}
	released := func(pkg string) string {
		return fmt.Sprintf("-X %[1]s.releaseVersion=%[2]s -X %[1]s.releaseCommit=%[3]s", pkg, version, commit)
	}
	const kube = "k8s.io/component-base/version."
	return []Program{
		{
			Name: "dray", Folder: ".", Package: "./cmd/dray", User: nobody,
			Link: released("github.com/dray-project/dray/cmd/dray/internal/cli"),
		},
		// Kubelet's folders, sockets and CDI files belong to root.
		{Name: "dray-agent", Folder: "agent", Package: "./cmd/dray-agent", User: "0:0", Port: "9464", Link: released("main")},
		{
			Name: "dray-scheduler", Folder: "schedplugin", Package: "./cmd/dray-scheduler", User: nobody, Port: "10259",
			// Feature gates depend on the version of the Kubernetes inside. That of Dray is build metadata.
			Link: fmt.Sprintf("-X %[1]sgitVersion=%[2]s+dray.%[5]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", kube, kubernetes, parts[0], parts[1], version),
		},
	}, nil
}

// nobody has the name nonroot in the images.
const nobody = "65532:65532"

// required is the version of a module that a go.mod requires.
func required(path, module string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		return "", err
	}
	for _, r := range file.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", path, module)
}
