package allocator_test

import (
	"context"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// The nearest miss names what would have to change least.
func TestNearestMiss(t *testing.T) {
	rootless := gpus("a", 2, "H100")
	for i := range rootless.Spec.Devices {
		delete(rootless.Spec.Devices[i].Attributes, "root")
	}
	selects := claim("c", 1)
	selects.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "A100"`}},
	}
	for _, test := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		slice *resourceapi.ResourceSlice
		want  string
	}{
		{
			"no candidate has the attribute", sameRoot(claim("c", 1)), rootless,
			"none of the candidates for request r0 has the attribute gpu.example.com/root",
		},
		{
			"too few agree", sameRoot(claim("c", 3)), gpus("a", 4, "H100"),
			"3 candidates must agree in gpu.example.com/root, at most 2 do",
		},
		{
			"one reason holds all back", selects, gpus("a", 2, "H100"),
			`2 more devices would serve request r0 but for one reason: rejected by selector 0: device.attributes["gpu.example.com"].model == "A100"`,
		},
		{"nothing is near", claim("c", 3), gpus("a", 2, "H100"), ""},
	} {
		outcome, err := compile(allocator.Options{}, test.claim).Allocate(context.Background(), clusterOf(test.slice).State(), node("a"))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		no, ok := outcome.(*allocator.Unsatisfiable)
		if !ok {
			t.Fatalf("%s: %v", test.name, outcome)
		}
		if got := no.Explain().NearestMiss; got != test.want {
			t.Errorf("%s: nearest miss %q, want %q", test.name, got, test.want)
		}
	}
}
