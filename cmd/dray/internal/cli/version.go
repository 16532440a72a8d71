// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// Set by the linker for releases. Other builds use the build information of the Go toolchain.
var (
	releaseVersion string
	releaseCommit  string
)

// versions is the JSON output of dray version.
type versions struct {
	metav1.TypeMeta `json:",inline"`
	Version         string `json:"version"`
	Commit          string `json:"commit,omitempty"`
	Modified        bool   `json:"modified,omitempty"`
	KubernetesAPI   string `json:"kubernetesAPI"`
	Go              string `json:"go"`
	Platform        string `json:"platform"`
}

func newVersion(o *origin) *cobra.Command {
	output := &output{}
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of dray and of the Kubernetes API it follows",
		Long: `Print the version of dray and of the Kubernetes API it follows.

Exit status: 0, or 2 for wrong usage.`,
		Example: `  # For people, and for a program
  dray version
  dray version -o jsonpath={.version}`,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return output.parse() },
		RunE: func(*cobra.Command, []string) error {
			v := version()
			if output.format.ForPeople() {
				_, err := fmt.Fprintln(o.streams.Out, v)
				return err
			}
			return output.format.Write(o.streams.Out, render.Document{Value: v, Items: []any{v}, Names: []string{v.Version}}, !output.noHeaders)
		},
	}
	output.addTo(command)
	return command
}

// version returns the version that the linker or the Go toolchain has recorded.
func version() versions {
	v := versions{
		TypeMeta: metav1.TypeMeta{APIVersion: render.APIVersion, Kind: "Version"},
		Version:  releaseVersion, Commit: releaseCommit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(v.Version, build.Main.Version)
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = cmp.Or(v.Commit, setting.Value)
		case "vcs.modified":
			v.Modified = releaseCommit == "" && setting.Value == "true"
		}
	}
	for _, module := range build.Deps {
		if module.Path == "k8s.io/api" {
			v.KubernetesAPI = strings.Replace(module.Version, "v0.", "v1.", 1)
		}
	}
	return v
}

// String returns the version as one line.
func (v versions) String() string {
	text := "dray " + v.Version
	if v.Commit != "" {
		text += ", commit " + v.Commit
	}
	if v.Modified {
		text += " with changes"
	}
	return fmt.Sprintf("%s, Kubernetes API %s, %s %s", text, v.KubernetesAPI, v.Go, v.Platform)
}

// replaceName replaces the program's name in an example.
func replaceName(example, name string) string {
	return strings.ReplaceAll(example, "dray ", name+" ")
}
