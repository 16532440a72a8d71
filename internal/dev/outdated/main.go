// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command outdated lists what is behind the latest release: what the go.mod of each module in
// the checkout requires directly or as a tool, and versions that the Makefile pins. It says,
// too, which other files name the version of Kubernetes that the scheduler is built with.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, ".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "outdated:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, out io.Writer) error {
	folders, err := modules(root)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHERE\tMODULE\tHAS\tLATEST")
	for _, folder := range folders {
		behind, err := behind(ctx, folder)
		if err != nil {
			return err
		}
		for _, m := range behind {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", filepath.Join(folder, "go.mod"), m.Path, m.Version, m.Update.Version)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, p := range pins(string(makefile)) {
		latest, err := latest(ctx, root, p.module)
		if err != nil {
			return err
		}
		if latest != p.version {
			fmt.Fprintf(table, "Makefile\t%s\t%s\t%s\n", p.module, p.version, latest)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return namers(ctx, root, out)
}

// modules returns the folders with a go.mod.
func modules(root string) ([]string, error) {
	var folders []string
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.Name() == "go.mod":
			folders = append(folders, filepath.Dir(file))
		}
		return nil
	})
	return folders, err
}

// module is what go list -m -json prints, as far as it matters.
type module struct {
	Path, Version string
	Update        *struct{ Version string }
	Error         *struct{ Err string }
}

// behind returns the modules that are required in a folder and have a later release.
func behind(ctx context.Context, folder string) ([]module, error) {
	text, err := command(ctx, folder, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	required, err := direct(text)
	if err != nil || len(required) == 0 {
		return nil, err
	}
	text, err = command(ctx, folder, append([]string{"list", "-mod=readonly", "-e", "-m", "-u", "-json"}, required...)...)
	if err != nil {
		return nil, err
	}
	var found []module
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var m module
		switch err := decoder.Decode(&m); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("%s: go list: %w", folder, err)
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s: %s", folder, m.Path, m.Error.Err)
		case m.Update != nil:
			found = append(found, m)
		}
	}
}

// direct returns the modules that a go.mod requires for packages of its own or as tools, and
// does not replace.
func direct(goMod []byte) ([]string, error) {
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(goMod, &file); err != nil {
		return nil, err
	}
	var paths []string
	for _, r := range file.Require {
		tool := slices.ContainsFunc(file.Tool, func(t struct{ Path string }) bool { return strings.HasPrefix(t.Path+"/", r.Path+"/") })
		replaced := slices.ContainsFunc(file.Replace, func(o struct{ Old struct{ Path string } }) bool { return o.Old.Path == r.Path })
		if (!r.Indirect || tool) && !replaced {
			paths = append(paths, r.Path)
		}
	}
	return paths, nil
}

type pin struct{ module, version string }

var pinned = regexp.MustCompile(`([a-z0-9-]+(?:\.[a-z0-9-]+)+/[\w./-]+)@(v[0-9]+\.[0-9]+\.[0-9]+[\w.-]*)`)

// pins returns what a text has as path@version.
func pins(text string) []pin {
	var found []pin
	for _, match := range pinned.FindAllStringSubmatch(text, -1) {
		p := pin{match[1], match[2]}
		p.module, _, _ = strings.Cut(p.module, "/cmd/") // of a program
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b pin) int { return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.version, b.version)) })
	return slices.Compact(found)
}

func latest(ctx context.Context, root, module string) (string, error) {
	text, err := command(ctx, root, "list", "-m", "-f", "{{.Version}}", module+"@latest")
	return strings.TrimSpace(string(text)), err
}

// kubernetes is the module that has the version of the control plane.
const kubernetes = "k8s.io/kubernetes"

// namers says which files besides go.mod name the version of Kubernetes.
func namers(ctx context.Context, root string, out io.Writer) error {
	text, err := command(ctx, filepath.Join(root, "schedplugin"), "list", "-mod=readonly", "-m", "-f", "{{.Version}}", kubernetes)
	if err != nil {
		return err
	}
	version := strings.TrimSpace(string(text))
	list := exec.CommandContext(ctx, "git", "grep", "-lF", strings.TrimPrefix(version, "v"), "--",
		":!*go.mod", ":!*go.sum", ":!**/results/**", ":!docs/decisions", ":!docs/conformance.md")
	list.Dir = root
	files, err := list.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // no file is no error
		return fmt.Errorf("git grep: %w", err)
	}
	fmt.Fprintf(out, "\n%s %s is named in:\n", kubernetes, version)
	for file := range strings.Lines(string(files)) {
		fmt.Fprintf(out, "  %s", path.Clean(file))
	}
	return nil
}

// command runs the go command. A module may need a later Go than the others: the go command gets it, though the environment
// may say GOTOOLCHAIN=local.
func command(ctx context.Context, folder string, arguments ...string) ([]byte, error) {
	run := exec.CommandContext(ctx, "go", arguments...)
	run.Dir = folder
	run.Env = append(run.Environ(), "GOTOOLCHAIN=auto")
	var stderr strings.Builder
	run.Stderr = &stderr
	output, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: go %s: %w: %s", folder, arguments[0], err, stderr.String())
	}
	return output, nil
}
