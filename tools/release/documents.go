package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists the modules that are linked into the command line, as CycloneDX.
func (r *release) writeSBOM() error {
	binary, err := r.build(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	main := component(info.Main.Path, r.Version)
	main.Type = cyclonedx.ComponentTypeApplication
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
	return os.WriteFile(filepath.Join(r.dist(), "sbom.cdx.json"), text.Bytes(), 0o644)
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
	for _, platform := range r.Platforms {
		sum, err := r.checksum(platform)
		if err != nil {
			return err
		}
		system, architecture, _ := strings.Cut(platform, "/")
		binary := "dray"
		if system == "windows" {
			binary += ".exe"
		}
		platforms = append(platforms, krewPlatform{system, architecture, fmt.Sprintf("%s/%s/%s", download, r.Version, r.archive(platform)), sum, binary})
	}
	var text bytes.Buffer
	manifest := struct {
		Version   string
		Platforms []krewPlatform
	}{r.Version, platforms}
	if err := krew.Execute(&text, manifest); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist(), "dray.krew.yaml"), text.Bytes(), 0o644)
}

// writeChangelog lists the commits since the last release, or all.
func (r *release) writeChangelog() error {
	tags, err := r.git("tag", "--merged", "HEAD", "--list", "v*", "--sort=-version:refname")
	if err != nil {
		return err
	}
	span := "HEAD"
	since := "the beginning"
	if last, _, _ := strings.Cut(tags, "\n"); last != "" {
		span, since = last+"..HEAD", last
	}
	subjects, err := r.git("log", "--no-merges", "--reverse", "--format=- %s", span)
	if err != nil {
		return err
	}
	var modules []string
	for _, m := range r.modules {
		modules = append(modules, "- "+m.Path)
	}
	slices.Sort(modules)
	text := fmt.Sprintf("# Dray %s\n\nModules:\n\n%s\n\nChanges since %s:\n\n%s\n", r.Version, strings.Join(modules, "\n"), since, subjects)
	return os.WriteFile(filepath.Join(r.dist(), "CHANGELOG"), []byte(text), 0o644)
}
