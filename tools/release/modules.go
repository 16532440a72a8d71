// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// development are folders whose modules nobody imports.
var development = []string{"tools", "benchmarks", "deploy", "dev", "testdata"}

// module is a published module.
type module struct {
	gomodule.Version
	folder string   // relative to the root, with slashes; "." for the root module
	files  []string // relative to the folder
	// gomod and gosum are as they are released.
	gomod, gosum []byte
}

// findModules lists the published modules, the root module first.
func (r *release) findModules() ([]*module, error) {
	arguments := []string{"ls-files", "-z"}
	if r.Uncommitted {
		arguments = append(arguments, "--cached", "--others", "--exclude-standard")
	}
	listed, err := r.git(arguments...)
	if err != nil {
		return nil, err
	}
	var files, folders []string
	for file := range strings.SplitSeq(strings.Trim(listed, "\x00"), "\x00") {
		// Of what is not committed, files may be gone.
		if stat, err := os.Lstat(filepath.Join(r.Root, file)); err != nil || !stat.Mode().IsRegular() {
			continue
		}
		files = append(files, file)
		if path.Base(file) == "go.mod" {
			folders = append(folders, path.Dir(file))
		}
	}
	slices.Sort(folders)
	var modules []*module
	for _, folder := range folders {
		if slices.ContainsFunc(strings.Split(folder, "/"), func(name string) bool { return slices.Contains(development, name) }) {
			continue
		}
		m := &module{folder: folder, files: within(folder, files, folders)}
		if m.gomod, err = os.ReadFile(filepath.Join(r.Root, folder, "go.mod")); err != nil {
			return nil, err
		}
		m.Path, m.Version.Version = modfile.ModulePath(m.gomod), r.Version
		modules = append(modules, m)
	}
	if len(modules) == 0 || modules[0].folder != "." {
		return nil, errors.New("there is no go.mod at the root of the repository")
	}
	return modules, r.requireEachOther(modules)
}

// within lists the files of a folder that are in no other module, relative to the folder.
func within(folder string, files, modules []string) []string {
	var own []string
	for _, file := range files {
		home := "."
		for _, other := range modules {
			if other != "." && strings.HasPrefix(file, other+"/") && len(other) > len(home) {
				home = other
			}
		}
		if home == folder {
			own = append(own, strings.TrimPrefix(file, folder+"/"))
		}
	}
	return own
}

// requireEachOther makes modules require each other at the version of the release, instead
// of replacing each other by folders.
func (r *release) requireEachOther(modules []*module) error {
	for _, m := range modules {
		file, err := modfile.Parse(path.Join(m.folder, "go.mod"), m.gomod, nil)
		if err != nil {
			return err
		}
		for _, replace := range slices.Clone(file.Replace) {
			if !isOneOf(replace.Old.Path, modules) {
				return fmt.Errorf("%s/go.mod replaces %s, which users of the module would not get", m.folder, replace.Old.Path)
			}
			if err := file.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
				return err
			}
		}
		for _, require := range slices.Clone(file.Require) {
			if isOneOf(require.Mod.Path, modules) {
				if err := file.AddRequire(require.Mod.Path, r.Version); err != nil {
					return err
				}
			}
		}
		file.Cleanup()
		if m.gomod, err = file.Format(); err != nil {
			return err
		}
	}
	return nil
}

func isOneOf(path string, modules []*module) bool {
	return slices.ContainsFunc(modules, func(m *module) bool { return m.Path == path })
}

func (r *release) git(arguments ...string) (string, error) {
	return r.command("git", nil, arguments...)
}

// command runs a program in the repository and returns what it prints.
func (r *release) command(name string, environment []string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	command.Dir = r.Root
	command.Env = append(command.Environ(), environment...)
	output, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(output)), nil
}

// writeProxy writes the modules the way a module proxy serves them.
func (r *release) writeProxy() error {
	date, err := r.git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	hashes := make(map[string][]string) // lines of go.sum by module
	for _, m := range r.modules {
		escaped, err := gomodule.EscapePath(m.Path)
		if err != nil {
			return err
		}
		folder := filepath.Join(r.Out, "proxy", filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		info, err := json.Marshal(map[string]string{"Version": r.Version, "Time": date})
		if err != nil {
			return err
		}
		if err := r.sumOf(m, hashes); err != nil {
			return err
		}
		archive := filepath.Join(folder, r.Version+".zip")
		if err := r.writeZip(m, archive); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		hash, err := dirhash.HashZip(archive, dirhash.Hash1)
		if err != nil {
			return err
		}
		modHash, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(string(m.gomod))), nil
		})
		if err != nil {
			return err
		}
		hashes[m.Path] = []string{fmt.Sprintf("%s %s %s", m.Path, r.Version, hash), fmt.Sprintf("%s %s/go.mod %s", m.Path, r.Version, modHash)}
		for name, content := range map[string][]byte{"list": []byte(r.Version + "\n"), r.Version + ".info": info, r.Version + ".mod": m.gomod} {
			name = filepath.Join(folder, name)
			if err := os.WriteFile(name, content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// sumOf adds the hashes of the modules that were written before, which this one may
// require, to its go.sum.
func (r *release) sumOf(m *module, hashes map[string][]string) error {
	sum, err := os.ReadFile(filepath.Join(r.Root, m.folder, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(sum)), "\n")
	file, err := modfile.Parse("go.mod", m.gomod, nil)
	if err != nil {
		return err
	}
	for _, require := range file.Require {
		lines = append(lines, hashes[require.Mod.Path]...)
	}
	slices.Sort(lines)
	m.gosum = []byte(strings.TrimSpace(strings.Join(slices.Compact(lines), "\n")) + "\n")
	return nil
}

// writeZip writes the archive of a module, with the license of the repository.
func (r *release) writeZip(m *module, archive string) error {
	var files []zip.File
	for _, name := range m.files {
		files = append(files, &zipped{name: name, path: filepath.Join(r.Root, m.folder, name), content: m.replaced(name)})
	}
	if !slices.Contains(m.files, "LICENSE") {
		files = append(files, &zipped{name: "LICENSE", path: filepath.Join(r.Root, "LICENSE")})
	}
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	return errors.Join(zip.Create(out, m.Version, files), out.Close())
}

// replaced is what is released instead of a file; nil for most.
func (m *module) replaced(name string) []byte {
	switch name {
	case "go.mod":
		return m.gomod
	case "go.sum":
		return m.gosum
	}
	return nil
}

// zipped is a file of a module's archive.
type zipped struct {
	name, path string
	content    []byte // instead of that of the file, if not nil
}

func (z *zipped) Path() string { return z.name }
func (z *zipped) Lstat() (os.FileInfo, error) {
	stat, err := os.Lstat(z.path)
	if err != nil || z.content == nil {
		return stat, err
	}
	return sized{stat, int64(len(z.content))}, nil
}

func (z *zipped) Open() (io.ReadCloser, error) {
	if z.content != nil {
		return io.NopCloser(strings.NewReader(string(z.content))), nil
	}
	return os.Open(z.path)
}

// sized is a file whose content is replaced.
type sized struct {
	os.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

// writeTags writes a script that commits the requirements of the release beside the branch,
// and tags that commit once for each module.
func (r *release) writeTags() error {
	var script strings.Builder
	fmt.Fprintf(&script, "#!/bin/sh\n# Puts the commit and the tags of %s into the repository. Run it at its root, then push\n# the tags. The branch stays as it is: its modules go on replacing each other by folders.\nset -eu\n", r.Version)
	fmt.Fprintf(&script, "branch=$(git symbolic-ref --short -q HEAD || git rev-parse HEAD)\ngit checkout -q --detach %s\n", r.commit)
	for _, m := range r.modules {
		for name, content := range map[string][]byte{"go.mod": m.gomod, "go.sum": m.gosum} {
			folder := filepath.Join(r.Out, "tagged", filepath.FromSlash(m.folder))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
				return err
			}
		}
		fmt.Fprintf(&script, "cp %[1]q/go.mod %[1]q/go.sum %[2]q/\n", filepath.Join(r.Out, "tagged", filepath.FromSlash(m.folder)), m.folder)
	}
	fmt.Fprintf(&script, "git commit -q -a --allow-empty -m 'Release %s'\n", r.Version)
	for _, m := range r.modules {
		fmt.Fprintf(&script, "git tag -a %s -m %s\n", m.tag(), m.tag())
	}
	script.WriteString("git checkout -q \"$branch\"\n")
	return os.WriteFile(filepath.Join(r.Out, "tag.sh"), []byte(script.String()), 0o755)
}

// tag is how Go finds the version of a module in its repository.
func (m *module) tag() string {
	if m.folder == "." {
		return m.Version.Version
	}
	return m.folder + "/" + m.Version.Version
}
