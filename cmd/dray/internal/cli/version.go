package cli

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of dray and of the Kubernetes API it follows",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), version())
			return err
		},
	}
}

// version is what the Go toolchain recorded when dray was built.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "dray (unknown version)"
	}
	text := "dray " + build.Main.Version
	for _, module := range build.Deps {
		if module.Path == "k8s.io/api" {
			text += ", Kubernetes API " + strings.Replace(module.Version, "v0.", "v1.", 1)
		}
	}
	return text + ", " + build.GoVersion
}

// replaceName puts the name that the program was called by into its examples.
func replaceName(example, name string) string {
	return strings.ReplaceAll(example, "dray ", name+" ")
}
