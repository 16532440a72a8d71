// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// steps are updates of one controller, each with what is published afterwards.
type step struct {
	update *DriverResources
	writes string // in the order in which they were made
	want   []string
}

func TestPublish(t *testing.T) {
	withGeneration := pool(devices("a"))
	withGeneration.Pools[node] = Pool{Generation: 7, Slices: withGeneration.Pools[node].Slices}
	for name, steps := range map[string][]step{
		"nothing": {{nil, "", nil}},
		"an empty pool": {
			{pool(devices()), "create 00000", []string{"node-1/1: 00000="}},
		},
		"one slice keeps its generation": {
			{pool(devices("a")), "create 00000", []string{"node-1/1: 00000=a"}},
			{pool(devices("b")), "update 00000", []string{"node-1/1: 00000=b"}},
			{pool(devices("b", "c")), "update 00000", []string{"node-1/1: 00000=b,c"}},
			{pool(devices("c", "b")), "update 00000", []string{"node-1/1: 00000=c,b"}},
		},
		"one of two slices keeps the generation": {
			{pool(devices("a"), devices("b")), "create 00000, create 00001", []string{"node-1/1: 00000=a 00001=b"}},
			{pool(devices("a"), devices("c")), "update 00001", []string{"node-1/1: 00000=a 00001=c"}},
		},
		"two of three slices raise it": {
			{pool(devices("a"), devices("b"), devices("c")), "create 00000, create 00001, create 00002", []string{"node-1/1: 00000=a 00001=b 00002=c"}},
			{pool(devices("x"), devices("y"), devices("c")), "update 00000, update 00001, update 00002", []string{"node-1/2: 00000=x 00001=y 00002=c"}},
		},
		"a new slice raises it": {
			{pool(devices("a")), "create 00000", []string{"node-1/1: 00000=a"}},
			{pool(devices("a"), devices("b")), "update 00000, create 00001", []string{"node-1/2: 00000=a 00001=b"}},
		},
		"a slice less is deleted first": {
			{pool(devices("a"), devices("b"), devices("c")), "create 00000, create 00001, create 00002", []string{"node-1/1: 00000=a 00001=b 00002=c"}},
			{pool(devices("a"), devices("b")), "delete 00002, update 00000, update 00001", []string{"node-1/2: 00000=a 00001=b"}},
		},
		"the driver's generation wins if it is higher": {
			{pool(devices("a")), "create 00000", []string{"node-1/1: 00000=a"}},
			{withGeneration, "update 00000", []string{"node-1/7: 00000=a"}},
			{pool(devices("b")), "update 00000", []string{"node-1/7: 00000=b"}},
		},
		"pools come and go": {
			{resources(map[string][]Slice{"p": {devices("a")}, "q": {devices("a")}}), "create 00000, create 00000", []string{"p/1: 00000=a", "q/1: 00000=a"}},
			{resources(map[string][]Slice{"q": {devices("a")}}), "delete 00000", []string{"q/1: 00000=a"}},
			{nil, "delete 00000", nil},
		},
		"an invalid pool stays as it was": {
			{pool(devices("a")), "create 00000", []string{"node-1/1: 00000=a"}},
			{pool(devices("b", "b")), "", []string{"node-1/1: 00000=a"}},
			{pool(devices("b")), "update 00000", []string{"node-1/1: 00000=b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
				for i, step := range steps {
					c.Update(step.update)
					after(2 * time.Minute)
					if got := strings.Join(s.attempts(), ", "); got != step.writes {
						t.Errorf("step %d: writes %q, want %q", i, got, step.writes)
					}
					if got := s.published(t); !slices.Equal(got, step.want) {
						t.Errorf("step %d: published %q, want %q", i, got, step.want)
					}
				}
			})
		})
	}
}

// TestUpdateCopies: what the driver does to its resources after Update has no effect.
func TestUpdateCopies(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		resources := pool(sliceWith(device("a", "old")))
		c.Update(resources)
		*resources.Pools[node].Slices[0].Devices[0].Attributes["model"].StringValue = "new"
		after(time.Minute)
		if got := *s.slices(t)[0].Spec.Devices[0].Attributes["model"].StringValue; got != "old" {
			t.Errorf("published %s", got)
		}
	})
}

// TestUpdateInPlace: a driver may change what it gave to Update, and give it again.
func TestUpdateInPlace(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		resources := pool(sliceWith(device("a", "old")), devices("b"))
		c.Update(resources)
		after(time.Minute)
		*resources.Pools[node].Slices[0].Devices[0].Attributes["model"].StringValue = "new"
		c.Update(resources)
		after(time.Minute)
		if got := *s.slices(t)[0].Spec.Devices[0].Attributes["model"].StringValue; got != "new" {
			t.Errorf("published %s", got)
		}
	})
}

// objectTest is a pool, and the object that is made of it.
type objectTest struct {
	owner        *Owner
	only         string
	pool         Pool
	generateName string
	owners       []metav1.OwnerReference
	spec         resourceapi.ResourceSliceSpec
}

func objectTests() map[string]objectTest {
	attribute := resourceapi.FullyQualifiedName("gpu.example.com/profile")
	full := Slice{
		Devices:                []resourceapi.Device{{Name: "a"}},
		PerDeviceNodeSelection: ptr.To(true),
		PartitionTypeAttribute: &attribute,
		SkipNodeOperations:     []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll},
	}
	selector := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{}}}
	spec := func(change func(*resourceapi.ResourceSliceSpec)) resourceapi.ResourceSliceSpec {
		spec := resourceapi.ResourceSliceSpec{
			Driver:  driver,
			Pool:    resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "a"}},
		}
		change(&spec)
		return spec
	}
	owned := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "node-uid", Controller: ptr.To(true)}}
	nodeOwner := &Owner{APIVersion: "v1", Kind: "Node", Name: node}
	return map[string]objectTest{
		"of a node": {
			nodeOwner, "", Pool{Slices: []Slice{devices("a")}}, "00000-gpu.example.com-node-1-", owned,
			spec(func(s *resourceapi.ResourceSliceSpec) { s.NodeName = ptr.To(node) }),
		},
		"of a node, one pool for all nodes": {
			nodeOwner, "p", Pool{AllNodes: true, Slices: []Slice{devices("a")}}, "00000-gpu.example.com-node-1-", owned,
			spec(func(s *resourceapi.ResourceSliceSpec) { s.AllNodes = ptr.To(true) }),
		},
		"of something else": {
			&Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "u"}, "", Pool{NodeSelector: selector, Slices: []Slice{devices("a")}},
			"00000-gpu.example.com-d-", []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "u", Controller: ptr.To(true)}},
			spec(func(s *resourceapi.ResourceSliceSpec) { s.NodeSelector = selector }),
		},
		"of nobody": {
			nil, "", Pool{Slices: []Slice{full}}, "00000-gpu.example.com-", nil,
			spec(func(s *resourceapi.ResourceSliceSpec) {
				s.PerDeviceNodeSelection = ptr.To(true)
				s.PartitionTypeAttribute = &attribute
				s.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
			}),
		},
	}
}

// TestObject looks at all that is created.
func TestObject(t *testing.T) {
	for name, test := range objectTests() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				c, err := StartController(t.Context(), Options{
					DriverName: driver, KubeClient: s, Owner: test.owner, ReconcilePoolWithName: test.only,
					Resources: &DriverResources{Pools: map[string]Pool{"p": test.pool}},
				})
				if err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
				defer c.Stop()
				got := s.slices(t)
				if len(got) != 1 {
					t.Fatalf("published %d slices", len(got))
				}
				if got[0].GenerateName != test.generateName || !strings.HasPrefix(got[0].Name, test.generateName) || got[0].Name == test.generateName {
					t.Errorf("name %q, made from %q, want a random end to %q", got[0].Name, got[0].GenerateName, test.generateName)
				}
				same(t, "owners", got[0].OwnerReferences, test.owners)
				same(t, "spec", got[0].Spec, test.spec)
			})
		})
	}
}

// TestOwnerLookedUpOnce: many pools need one request for the node.
func TestOwnerLookedUpOnce(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(resources(map[string][]Slice{"p": {devices("a")}, "q": {devices("a")}, "r": {devices("a")}}))
		after(time.Minute)
		gets := 0
		for _, action := range s.Actions() {
			if action.Matches("get", "nodes") {
				gets++
			}
		}
		if gets != 1 || len(s.published(t)) != 3 {
			t.Errorf("%d requests for the node, %q published", gets, s.published(t))
		}
	})
}
