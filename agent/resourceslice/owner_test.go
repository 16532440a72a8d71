// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// deleteNode deletes the node, and the slices that name it as their owner, as the garbage
// collector does.
func deleteNode(t *testing.T, s *server) {
	t.Helper()
	stored, err := s.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	collect(t, s, stored.UID)
}

// collect deletes the slices of an owner.
func collect(t *testing.T, s *server, uid types.UID) {
	t.Helper()
	for _, slice := range s.slices(t) {
		if slices.ContainsFunc(slice.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == uid }) {
			if err := s.Tracker().Delete(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), "", slice.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func createNode(t *testing.T, s *server, uid types.UID) {
	t.Helper()
	if _, err := s.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: uid}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// owners are the UIDs of the owners of all slices.
func owners(t *testing.T, s *server) []string {
	t.Helper()
	var out []string
	for _, slice := range s.slices(t) {
		text := slice.Spec.Pool.Name + ":"
		for _, owner := range slice.OwnerReferences {
			text += " " + string(owner.UID)
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// TestOwnerIsReplaced: a node is deleted and created again, under its name and with another
// UID. What is published afterwards is its own.
func TestOwnerIsReplaced(t *testing.T) {
	for peer, want := range map[string][]string{
		"dray":     {"p: other-uid", "p: other-uid", "q: other-uid"},
		"upstream": {"p: node-uid", "p: node-uid", "q: node-uid"},
	} {
		t.Run(peer, func(t *testing.T) {
			s := newServer()
			play(t, peer, s, func(t *testing.T, c publisher, log *errorLog) {
				c.Update(resources(map[string][]Slice{"p": {devices("a"), devices("b")}, "q": {devices("c")}}))
				after(time.Minute)
				deleteNode(t, s)
				createNode(t, s, "other-uid")
				after(2 * DefaultSyncDelay)
				if got := owners(t, s); !slices.Equal(got, want) {
					t.Errorf("owners %q, want %q", got, want)
				}
				if errs := log.all(); len(errs) > 0 {
					t.Errorf("errors %v", errs)
				}
			})
		})
	}
}

// TestOwnerOfOtherPools: the garbage collector has deleted the slices of one pool. Those of
// the others follow the node without being deleted first.
func TestOwnerOfOtherPools(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(resources(map[string][]Slice{"p": {devices("a")}, "q": {devices("c")}}))
		after(time.Minute)
		if err := s.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		createNode(t, s, "other-uid")
		deleteFirst(t, s)
		s.attempts()
		after(2 * DefaultSyncDelay)
		if got, want := owners(t, s), []string{"p: other-uid", "q: other-uid"}; !slices.Equal(got, want) {
			t.Errorf("owners %q, want %q", got, want)
		}
		if got := s.attempts(); len(got) != 2 {
			t.Errorf("writes %q, want a create and an update", got)
		}
	})
}

// TestNoOwner: nothing is published for a node that does not exist, and all is soon after it
// exists again, however long that took.
func TestNoOwner(t *testing.T) {
	s := newServer()
	play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Minute)
		deleteNode(t, s)
		after(3 * time.Hour)
		if got := s.published(t); len(got) != 0 {
			t.Errorf("published %q without a node", got)
		}
		errs := log.all()
		if len(errs) == 0 || !errors.Is(errs[0], errNoOwner) || !strings.Contains(errs[0].Error(), `pool "node-1": look up owner: the node does not exist`) {
			t.Errorf("errors %v", errs)
		}
		createNode(t, s, "other-uid")
		after(DefaultSyncDelay + time.Second)
		if got, want := owners(t, s), []string{"node-1: other-uid"}; !slices.Equal(got, want) {
			t.Errorf("owners %q, want %q", got, want)
		}
	})
}

// TestOwnerOfLeftovers: the slices of an earlier run get the owner that the node is now. An
// owner that somebody else added stays.
func TestOwnerOfLeftovers(t *testing.T) {
	stored := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "00000-old", UID: "u", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node, UID: "old-uid", Controller: ptr.To(true)},
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "daemon-set"},
		}},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node), Devices: devices("a").Devices,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 5, ResourceSliceCount: 1},
		},
	}
	s := newServer(stored)
	play(t, "dray", s, func(t *testing.T, c publisher, _ *errorLog) {
		c.Update(pool(devices("a")))
		after(time.Minute)
		if got, want := owners(t, s), []string{"node-1: daemon-set node-uid"}; !slices.Equal(got, want) {
			t.Errorf("owners %q, want %q", got, want)
		}
		if got := s.attempts(); !slices.Equal(got, []string{"update 00000"}) {
			t.Errorf("writes %q, want one update", got)
		}
	})
}
