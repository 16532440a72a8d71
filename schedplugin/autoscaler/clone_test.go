// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCloneTestSnapshot: a clone is equal, and shares nothing with what it is of.
func TestCloneTestSnapshot(t *testing.T) {
	node := "node"
	local := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Spec: resourceapi.ResourceSliceSpec{NodeName: &node}}
	everywhere := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "everywhere"}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	first := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "first", Namespace: "ns"}}
	second := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: "ns"}}
	s := NewSnapshot(map[ResourceClaimId]*resourceapi.ResourceClaim{GetClaimId(first): first},
		map[string][]*resourceapi.ResourceSlice{node: {local}}, []*resourceapi.ResourceSlice{everywhere}, map[string]*resourceapi.DeviceClass{"class": class})
	s.Fork()
	if err := s.AddClaims([]*resourceapi.ResourceClaim{second}); err != nil {
		t.Fatal(err)
	}
	clone := CloneTestSnapshot(s)
	if diff := cmp.Diff(s, clone, SnapshotFlattenedComparer()); diff != "" {
		t.Errorf("a clone differs: %s", diff)
	}
	if listed, err := clone.ResourceSlices().ListWithDeviceTaintRules(); err != nil || len(listed) != 2 {
		t.Errorf("%d slices, %v", len(listed), err)
	}
	for _, change := range []struct {
		what string
		of   *metav1.ObjectMeta
	}{{"claim", &first.ObjectMeta}, {"claim added later", &second.ObjectMeta}, {"slice", &local.ObjectMeta}, {"slice of no node", &everywhere.ObjectMeta}, {"class", &class.ObjectMeta}} {
		change.of.Labels = map[string]string{"changed": "yes"}
		if cmp.Equal(s, clone, SnapshotFlattenedComparer()) {
			t.Errorf("%s: the clone has the same object, or it is not compared", change.what)
		}
		change.of.Labels = nil
		if !cmp.Equal(s, clone, SnapshotFlattenedComparer()) {
			t.Fatalf("%s: not equal again", change.what)
		}
	}
	if !cmp.Equal(NewEmptySnapshot(), NewSnapshot(nil, nil, nil, map[string]*resourceapi.DeviceClass{}), SnapshotFlattenedComparer()) {
		t.Error("no map of classes is not equal to an empty one")
	}
	tainting := NewSnapshot(nil, map[string][]*resourceapi.ResourceSlice{node: {{
		Spec: resourceapi.ResourceSliceSpec{NodeName: &node, Driver: "d", Pool: resourceapi.ResourcePool{Name: node}, Devices: []resourceapi.Device{{Name: "x"}}},
	}}}, nil, nil)
	taint := resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if err := tainting.SetDeviceTaintRules([]*resourceapi.DeviceTaintRule{{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Pool: &node}, Taint: taint}}}); err != nil {
		t.Fatal(err)
	}
	for i, s := range []*Snapshot{tainting, CloneTestSnapshot(tainting)} {
		listed, err := s.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil || len(listed) != 1 || len(listed[0].Spec.Devices[0].Taints) != 1 {
			t.Errorf("snapshot %d: the rule of a taint does not hold: %v (%v)", i, listed, err)
		}
	}
	if CloneTestSnapshot(nil) != nil || !cmp.Equal((*Snapshot)(nil), (*Snapshot)(nil), SnapshotFlattenedComparer()) || cmp.Equal(s, nil, SnapshotFlattenedComparer()) {
		t.Error("nil is a snapshot")
	}
}
