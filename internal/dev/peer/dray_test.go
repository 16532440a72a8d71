// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
)

// Dray answers every scenario as expected. With -rewrite it writes the files.
func TestDray(t *testing.T) {
	alloctest.Run(t, peer.Dray(), alloctest.Folder("../../../alloctest/scenarios"))
}

// So it does if it remembers nothing.
func TestDrayWithoutMemory(t *testing.T) {
	without := allocator.Options{Memory: allocator.NewMemory(allocator.MemoryOptions{Off: true})}
	alloctest.Run(t, peer.DrayWith(without), alloctest.Folder("../../../alloctest/scenarios"))
	alloctest.Run(t, peer.DrayWith(without), alloctest.Folder(extensions))
}

// So it does behind upstream's API.
func TestDrayStructured(t *testing.T) { alloctest.Run(t, peer.DrayStructured()) }

// So does what is kept from scenario to scenario, each of which changes all or, in
// sequences, some of the cluster.
func TestKept(t *testing.T) { alloctest.Run(t, peer.Kept()) }

// extensions are scenarios about what resource.k8s.io/v1 cannot say.
const extensions = "../../../alloctest/extensions"

func TestDrayExtensions(t *testing.T) { alloctest.Run(t, peer.Dray(), alloctest.Folder(extensions)) }

func TestKeptExtensions(t *testing.T) { alloctest.Run(t, peer.Kept(), alloctest.Folder(extensions)) }

// policies has scenarios about the policies of devices, in a folder of the name of each, and about topology.
const policies = "../../../alloctest/policies/"

func TestDrayPolicies(t *testing.T) {
	for _, name := range []string{"LeastWaste", "Pack", "Spread"} {
		policy, err := allocator.PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, peer.DrayWith(allocator.Options{Policy: policy}), alloctest.Folder(policies+name))
		})
	}
	t.Run("Topology", func(t *testing.T) {
		options := allocator.Options{Topology: []resourceapi.FullyQualifiedName{"topology.example.com/numa"}}
		alloctest.Run(t, peer.DrayWith(options), alloctest.Folder(policies+"Topology"))
	})
}
