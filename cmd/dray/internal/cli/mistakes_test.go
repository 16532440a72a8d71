package cli_test

import (
	"fmt"
	"strings"
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

// What has no translation is named by object and field, and is not as long as the input.
func TestConvertSaysWhatIsRefused(t *testing.T) {
	var pool strings.Builder
	pool.WriteString("apiVersion: devmgmtproto.k8s.io/v1alpha1\nkind: DevicePool\nmetadata: {name: gpus}\nspec:\n  driver: gpu.example.com\n  devices:\n")
	for i := range 3000 {
		fmt.Fprintf(&pool, "  - {name: g%d, attributes: [{name: pcie-root, stringValue: \"%d\"}]}\n", i, i)
	}
	fmt.Fprintf(&pool, "---\napiVersion: devmgmtproto.k8s.io/v1alpha1\nkind: DeviceClass\nmetadata: {name: c}\nspec: {driver: gpu.example.com, deviceType: gpu, constraints: 'device[\"%s-\"] == 1'}\n", strings.Repeat("y", 9000))
	out, status := runStatus(pool.String(), "dray", "convert", "-f", "-")
	if status != 1 || len(out) > 20_000 {
		t.Errorf("status %d, %d bytes:\n%.600s", status, len(out), out)
	}
	for _, want := range []string{
		"no translation: DevicePool gpus: spec.devices[0].attributes[0].name: pcie-root: v1 wants a C identifier", "no translation: 2901 more fields, of DevicePool gpus, DeviceClass c\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%.2000s", want, out)
		}
	}
}
