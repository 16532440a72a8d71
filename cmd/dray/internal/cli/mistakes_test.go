package cli_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Files in testdata/mistakes and testdata/workloads hold manifests, read together with
// testdata/cluster.yaml, and what dray says of them.
func TestCluster(t *testing.T) {
	for _, folder := range []string{"testdata/mistakes", "testdata/workloads"} {
		datadriven.Walk(t, folder, func(t *testing.T, path string) {
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				arguments := []string{"dray", d.Cmd}
				for _, argument := range d.CmdArgs {
					arguments = append(arguments, argument.String())
				}
				output := run(d.Input, append(arguments, "-f", "testdata/cluster.yaml", "-f", "-")...)
				return output
			})
		})
	}
}
