// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/semver"
)

// writeSBOMs list the modules that are linked into each program, as CycloneDX.
func (r *release) writeSBOMs() error {
	for _, p := range r.programs() {
		platforms := r.platformsOf(p)
		if len(platforms) == 0 {
			continue
		}
		binary, err := r.build(p, platforms[0])
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return err
		}
		bom := cyclonedx.NewBOM()
		main := component(info.Main.Path, r.Version)
		main.Name, main.Type = p.name, cyclonedx.ComponentTypeApplication
		bom.Metadata = &cyclonedx.Metadata{Component: &main}
		components := []cyclonedx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"))}
		for _, dependency := range info.Deps {
			components = append(components, component(dependency.Path, dependency.Version))
		}
		bom.Components = &components
		var text bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.dist(), p.name+".cdx.json"), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func component(path, version string) cyclonedx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}

const download = "https://github.com/dray-project/dray/releases/download"

// krew is the manifest of a plugin of kubectl for https://krew.sigs.k8s.io.
var krew = template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: dray
spec:
  version: {{.Version}}
  homepage: https://github.com/dray-project/dray
  shortDescription: Explain why pods do not get their devices
  description: |
    Says why a pod does not get the devices of its ResourceClaims (Dynamic Resource
    Allocation), where pending pods would go and with which devices, and what devices
    there are, who holds them and what is left. Reads a cluster or manifests, and writes
    nothing.
  platforms:
{{- range .Platforms}}
  - selector:
      matchLabels: {os: {{.System}}, arch: {{.Architecture}}}
    uri: {{.URL}}
    sha256: {{.Sum}}
    bin: {{.Binary}}
{{- end}}
`))

type krewPlatform struct{ System, Architecture, URL, Sum, Binary string }

func (r *release) writeKrew() error {
	var platforms []krewPlatform
	dray := r.programs()[0]
	for _, platform := range r.platformsOf(dray) {
		sum, err := r.checksum(r.archive(dray, platform))
		if err != nil {
			return err
		}
		system, architecture, _ := strings.Cut(platform, "/")
		binary := "dray"
		if system == "windows" {
			binary += ".exe"
		}
		platforms = append(platforms, krewPlatform{system, architecture, fmt.Sprintf("%s/%s/%s", download, r.Version, r.archive(dray, platform)), sum, binary})
	}
	var text bytes.Buffer
	manifest := struct {
		Version   string
		Platforms []krewPlatform
	}{r.Version, platforms}
	if err := krew.Execute(&text, manifest); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist(), "dray.yaml"), text.Bytes(), 0o644)
}

// writeChangelog takes what CHANGELOG.md says of the version, or else of what is not released.
func (r *release) writeChangelog() error {
	all, err := os.ReadFile(filepath.Join(r.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text := section(string(all), strings.TrimPrefix(r.Version, "v"))
	if text == "" && (r.Uncommitted || semver.Prerelease(r.Version) != "") {
		text = section(string(all), "Unreleased")
	}
	if text == "" {
		return fmt.Errorf("CHANGELOG.md: there is no section \"## %s\"", strings.TrimPrefix(r.Version, "v"))
	}
	return os.WriteFile(filepath.Join(r.dist(), "CHANGELOG.md"), []byte("# Dray "+r.Version+"\n\n"+text+"\n"), 0o644)
}

// section is the text below a heading of the second level that begins with a title.
func section(text, title string) string {
	_, after, found := strings.Cut("\n"+text, "\n## "+title)
	if !found || after != "" && !strings.HasPrefix(after, "\n") && !strings.HasPrefix(after, " ") {
		return ""
	}
	_, after, _ = strings.Cut(after, "\n")
	body, _, _ := strings.Cut(after, "\n## ")
	return strings.TrimSpace(body)
}
