// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(md|txt)|[-_.][a-z0-9]+)?$`)

// linked is a package that a program consists of.
type linked struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct{ Path, Version, Dir string }
}

// licenses are those of all that is linked into a program: license and notice files of the folders from each package to
// the top of its module. A module without any is an error.
func (r *release) licenses(p program, platform string) ([]byte, error) {
	system, architecture, _ := strings.Cut(platform, "/")
	listed, err := r.command("go", []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture},
		"-C", filepath.Join(r.Root, p.module), "list", "-deps", "-json=ImportPath,Dir,Standard,Module", p.path)
	if err != nil {
		return nil, err
	}
	texts := make(map[string][]string) // by module, paths of files
	for decoder := json.NewDecoder(strings.NewReader(listed)); ; {
		var one linked
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if one.Standard || one.Module == nil || strings.HasPrefix(one.Module.Path, "github.com/dray-project/dray") {
			continue // Go's license is added below
		}
		name := one.Module.Path + " " + one.Module.Version
		if _, known := texts[name]; !known {
			texts[name] = nil
		}
		for folder := one.Dir; strings.HasPrefix(folder, one.Module.Dir); folder = filepath.Dir(folder) {
			found, err := licenseFiles(folder)
			if err != nil {
				return nil, err
			}
			for _, file := range found {
				if !slices.Contains(texts[name], file) {
					texts[name] = append(texts[name], file)
				}
			}
		}
	}
	goRoot, err := r.command("go", nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	if texts["the Go standard library"], err = licenseFiles(goRoot); err != nil {
		return nil, err
	}
	return writeLicenses(texts)
}

func licenseFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && licenseFile.MatchString(entry.Name()) {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, nil
}

// writeLicenses lists equal texts once.
func writeLicenses(texts map[string][]string) ([]byte, error) {
	var order []string
	of := make(map[string][]string) // text: modules
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if len(texts[name]) == 0 {
			return nil, fmt.Errorf("module %s has no license file", name)
		}
		slices.Sort(texts[name])
		for _, file := range texts[name] {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
			if of[text] == nil {
				order = append(order, text)
			}
			if !slices.Contains(of[text], name) {
				of[text] = append(of[text], name)
			}
		}
	}
	var all strings.Builder
	all.WriteString("This program contains the software listed here, under these licenses.\n")
	for _, text := range order {
		fmt.Fprintf(&all, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(of[text], "\n"), text)
	}
	return []byte(all.String()), nil
}
