package allocator_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// Pairs of nodes that are alike but for one thing, which decides.
func TestUnlikeNodes(t *testing.T) {
	unlike := func(name string, fits, fails *corev1.Node, c *resourceapi.ResourceClaim, slices ...*resourceapi.ResourceSlice) {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]*corev1.Node{{fits, fails}, {fails, fits}} {
				ledger, problem := clusterOf(slices...), compile(allocator.Options{}, c)
				for range 2 {
					for _, node := range order {
						want := allocator.NotSatisfiable
						if node == fits {
							want = allocator.Satisfiable
						}
						if got := feasible(problem, ledger, node); got != want.String() {
							t.Errorf("node %s after %s: %s", node.Name, order[0].Name, got)
						}
					}
				}
			}
		})
	}
	a, b := node("a"), node("b")
	pair := sameRoot(claim("c", 2))
	unlike("values of two pools are equal", a, b, pair,
		rooted(gpus("a", 1, "H100"), "x"), second(rooted(gpus("a", 1, "H100"), "x")),
		rooted(gpus("b", 1, "H100"), "x"), second(rooted(gpus("b", 1, "H100"), "y")))
	everywhere := rooted(gpus("net", 1, "H100"), "x")
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	unlike("a value is that of a pool for all nodes", a, b, pair,
		rooted(gpus("a", 1, "H100"), "x"), rooted(gpus("b", 1, "H100"), "y"), everywhere)
	unlike("a taint is tolerated", a, b, tolerating(claim("c", 1), "soft"),
		tainted(gpus("a", 1, "H100"), "soft"), tainted(gpus("b", 1, "H100"), "hard"))
	declaring := node("a")
	declaring.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	optional := gpus("a", 1, "H100")
	optional.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	unlike("the node declares a feature", declaring, a, claim("c", 1), optional)
	unlike("a capacity suffices", a, b, sharing(claim("c", 1)),
		bandwidth(gpus("a", 1, "H100"), "100"), bandwidth(gpus("b", 1, "H100"), "50"))
	unlike("a computed value is that of another pool", a, b, computed(claim("c", 2)),
		rooted(gpus("a", 1, "H100"), "x"), second(rooted(gpus("a", 1, "H100"), "x")),
		rooted(gpus("b", 1, "H100"), "x"), second(rooted(gpus("b", 1, "H100"), "y")))
	unlike("a label is one of those that are not excluded", labelled("a", "1"), labelled("b", "2"), claim("c", 1),
		selected(gpus("any", 1, "H100"), corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"2"}}))
	unlike("a label has the value", labelled("a", "1"), labelled("a", "2"), claim("c", 1),
		selected(gpus("any", 1, "H100"), corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"1", "3"}}))
}

// A device elsewhere that a selector cannot be evaluated on is an error for the nodes that
// look at it, and only for these.
func TestErrorsElsewhere(t *testing.T) {
	slices := []*resourceapi.ResourceSlice{perDevice(gpus("a", 2, "H100"), "a", "elsewhere"), perDevice(gpus("b", 2, "H100"), "b", "elsewhere")}
	delete(slices[1].Spec.Devices[1].Attributes, "model")
	problem := compile(allocator.Options{}, selecting(claim("c", 2), `device.attributes["gpu.example.com"].model == "H100"`))
	ledger := clusterOf(slices...)
	for range 2 {
		if got := feasible(problem, ledger, node("a")); got != allocator.NotSatisfiable.String() {
			t.Errorf("node a: %s", got)
		}
		if got := feasible(problem, ledger, node("b")); got != "error" {
			t.Errorf("node b: %s", got)
		}
	}
}

// A node with a device at which a selector fails is not alike to one with a device that the selector rejects, also where
// devices are told apart by what selectors say of them, as it is not known what they read.
func TestFailingIsNotRejecting(t *testing.T) {
	slices := []*resourceapi.ResourceSlice{gpus("a", 1, "T4"), gpus("b", 1, "T4")}
	delete(slices[1].Spec.Devices[0].Attributes, "model")
	problem := compile(allocator.Options{}, selecting(claim("c", 1), `device.attributes[device.driver].model == "H100"`))
	ledger := clusterOf(slices...)
	for range 2 {
		if got := feasible(problem, ledger, node("a")); got != allocator.NotSatisfiable.String() {
			t.Errorf("node a: %s", got)
		}
		if got := feasible(problem, ledger, node("b")); got != "error" {
			t.Errorf("node b: %s", got)
		}
	}
}

func feasible(p *allocator.Problem, l *pools.Ledger, node *corev1.Node) string {
	found, err := p.Feasible(context.Background(), l.State(), node)
	verdict := found.Verdict()
	if (verdict == allocator.NoVerdict) != (err != nil) {
		return fmt.Sprintf("verdict %s with error %v", verdict, err)
	}
	if err != nil {
		return "error"
	}
	return verdict.String()
}

func rooted(slice *resourceapi.ResourceSlice, root string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{StringValue: &root}
	}
	return slice
}

// second makes a slice the second pool of its node.
func second(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Name += "-2"
	slice.Spec.Pool.Name += "-2"
	return slice
}

func tainted(slice *resourceapi.ResourceSlice, key string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return slice
}

func tolerating(c *resourceapi.ResourceClaim, key string) *resourceapi.ResourceClaim {
	for i := range c.Spec.Devices.Requests {
		c.Spec.Devices.Requests[i].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: key, Operator: resourceapi.DeviceTolerationOpExists}}
	}
	return c
}

// bandwidth gives the devices of a slice that much, in all or none.
func bandwidth(slice *resourceapi.ResourceSlice, value string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bandwidth": {Value: resource.MustParse(value)}}
	}
	return slice
}

// computed wants devices on one bus, which is computed from their roots.
func computed(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range c.Spec.Devices.Requests {
		c.Spec.Devices.Requests[i].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
			Name: "gpu.example.com/bus", Expression: `"of " + device.attributes["gpu.example.com"].root`,
		}}
	}
	c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/bus"))}}
	return c
}

func labelled(name, zone string) *corev1.Node {
	n := node(name)
	n.Labels = map[string]string{"zone": zone}
	return n
}

func selected(slice *resourceapi.ResourceSlice, requirement corev1.NodeSelectorRequirement) *resourceapi.ResourceSlice {
	slice.Spec.NodeName = nil
	slice.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{requirement},
	}}}
	return slice
}

// perDevice leaves the choice of nodes to the devices.
func perDevice(slice *resourceapi.ResourceSlice, nodes ...string) *resourceapi.ResourceSlice {
	slice.Spec.NodeName, slice.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].NodeName = &nodes[i]
	}
	return slice
}
