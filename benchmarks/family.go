// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/alloctest"
)

// Family generates random but realistic inputs that need almost all devices of a node. About half
// of them fit.
type Family struct {
	// Name is a path element of benchmark names, as that of a Cliff.
	Name string
	// Build returns the input of a seed: the claims of one pod. The question is about Case.Node.
	Build func(seed uint64) *alloctest.Case
}

// Families returns all families.
func Families() []Family {
	return []Family{
		{"fill-partitions", fillPartitions},
		{"fill-shares", fillShares},
		{"fill-shares-unevenly", fillSharesUnevenly},
		{"fill-roots", fillRoots},
		{"clique-trays", cliqueTrays},
	}
}

func randomOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 25)) }

// fillPartitions has eight partitionable GPUs, some with allocated partitions. Requests for
// partitions of four sizes need almost all that is free. They are in random order, or the small
// ones first.
func fillPartitions(seed uint64) *alloctest.Case {
	r, c := randomOf(seed), newCluster(fmt.Sprintf("partitions of four sizes for eight GPUs, seed %d", seed))
	c.class("mig", `device.driver == "mig.example.com"`)
	name := c.node("node").Name
	c.gpuPartitions(name)
	sizes := []profile{profiles[0], profiles[3], profiles[4], profiles[5]} // 1g, 2g, 3g, 4g
	wanted, busy := make([]int, len(sizes)), 2+r.IntN(9)
	for gpu := range gpusPerNode {
		var memory [8]bool
		compute := 7
		for range 40 {
			k := r.IntN(len(sizes))
			kind := sizes[k]
			start := kind.starts[r.IntN(len(kind.starts))]
			if kind.compute > compute || slices.Contains(memory[start:start+kind.memory], true) {
				continue
			}
			for i := range kind.memory {
				memory[start+i] = true
			}
			compute -= kind.compute
			if r.IntN(busy) == 0 {
				c.running(migDriver, name, fmt.Sprintf("gpu-%d-%s-%d", gpu, kind.name, start))
			} else {
				wanted[k]++
			}
		}
	}
	// Replace requests of one size by requests of another, so that some inputs do not fit.
	for range r.IntN(4) {
		from, to := r.IntN(len(sizes)), r.IntN(len(sizes))
		if wanted[from] > 0 {
			wanted[from], wanted[to] = wanted[from]-1, wanted[to]+1
		}
	}
	var asked []resourceapi.DeviceRequest
	for k, n := range wanted {
		asked = append(asked, named("size-"+fmt.Sprint(k), requests(n, "mig", profileIs(sizes[k].name)))...)
	}
	if r.IntN(2) == 0 {
		r.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	}
	c.claimMany(asked)
	return c.Case
}

// fillShares has eight shared GPUs of 80Gi. 32 requests for shares need almost all of them. Each is
// 5 or 10Gi, or a multiple.
func fillShares(seed uint64) *alloctest.Case {
	r := randomOf(seed)
	return sharesOf(r, seed, []int{5, 10}[r.IntN(2)])
}

// fillSharesUnevenly is fillShares with shares of any number of Gi.
func fillSharesUnevenly(seed uint64) *alloctest.Case { return sharesOf(randomOf(seed), seed, 1) }

func sharesOf(r *rand.Rand, seed uint64, step int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("32 shares of eight GPUs in steps of %dGi, seed %d", step, seed))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.pool(gpuDriver, "node", devices(8, numbered, func(int) deviceOption { return shared }, func(int) deviceOption { return capacity("memory", "80Gi") })...)
	var amounts []int
	for range 8 {
		left := 80
		for range 3 {
			part := step * (1 + r.IntN(max(1, left/step/2)))
			amounts, left = append(amounts, part), left-part
		}
		amounts = append(amounts, left)
	}
	// Some take one step more, others less.
	for i := range r.IntN(4) {
		amounts[i*8] += step * (1 - 2*r.IntN(3)/2)
	}
	r.Shuffle(len(amounts), func(i, j int) { amounts[i], amounts[j] = amounts[j], amounts[i] })
	if r.IntN(3) == 0 {
		slices.Sort(amounts)
	}
	var asked []resourceapi.DeviceRequest
	for i, memory := range amounts {
		asked = append(asked, amountOf(request(fmt.Sprintf("share-%d", i), "gpu", 1), "memory", fmt.Sprintf("%dGi", max(memory, 1))))
	}
	c.claimMany(asked)
	return c.Case
}

// amountOf adds an amount of a capacity to a request.
func amountOf(r resourceapi.DeviceRequest, name resourceapi.QualifiedName, quantity string) resourceapi.DeviceRequest {
	r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: resource.MustParse(quantity)}}
	return r
}

// fillRoots is a node with a shared GPU and a shared NIC on each PCIe root. 6 to 14 claims request
// a share of both on one root.
func fillRoots(seed uint64) *alloctest.Case {
	r, c := randomOf(seed), newCluster(fmt.Sprintf("shares of a GPU and a NIC of one root, seed %d", seed))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.class("nic", `device.driver == "nic.example.com"`)
	claims := 6 + r.IntN(9)
	roots := 2 + r.IntN(max(1, claims/2))
	root := func(i int) deviceOption { return attribute(pcieRoot, fmt.Sprintf("pci0000:%02x", i)) }
	share := func(int) deviceOption { return shared }
	c.pool(gpuDriver, "node", devices(roots, numbered, root, share, func(int) deviceOption { return capacity("memory", "80Gi") })...)
	c.pool(nicDriver, "node", devices(roots, numbered, root, share, func(int) deviceOption { return capacity("bandwidth", "100G") })...)
	// the requests need 80 % to all of both
	full := 80 + r.IntN(25)
	memory, bandwidth := parts(r, claims, roots*80*full/100, 5), parts(r, claims, roots*100*full/100, 5)
	for i := range claims {
		matching(c.claim(fmt.Sprintf("pending-%d", i),
			amountOf(request("gpu", "gpu", 1), "memory", fmt.Sprintf("%dGi", min(80, memory[i]))),
			amountOf(request("nic", "nic", 1), "bandwidth", fmt.Sprintf("%dG", min(100, bandwidth[i])))), pcieRoot)
	}
	return c.Case
}

// parts returns n random multiples of a step with about the given sum.
func parts(r *rand.Rand, n, sum, step int) []int {
	weights, total := make([]int, n), 0
	for i := range weights {
		weights[i] = 2 + r.IntN(7)
		total += weights[i]
	}
	for i := range weights {
		weights[i] = max(step, (sum*weights[i]/total+step/2)/step*step)
	}
	return weights
}

// cliqueTrays has cliques of trays with four GPUs, each on a root with a NIC. 40 % of the GPUs are
// in use. A claim requests 8 to 12 GPUs on different trays of one clique, each with a NIC on its
// root.
func cliqueTrays(seed uint64) *alloctest.Case {
	r, c := randomOf(seed), newCluster(fmt.Sprintf("GPUs of different trays of one clique, seed %d", seed))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.class("nic", `device.driver == "nic.example.com"`)
	n := 8 + r.IntN(5)
	trays, perTray := n+r.IntN(4), []int{2, 4}[r.IntN(2)]
	cliques := 1 + r.IntN(max(1, min(4, 128/(trays*perTray))))
	var gpus, nics []resourceapi.Device
	perRoot := 1 + r.IntN(2)
	for i := range cliques * trays * perTray {
		tray := i / perTray
		bus := attribute(pcieRoot, fmt.Sprintf("pci%04d:%02x", tray, i%perTray/perRoot))
		gpus = append(gpus, newDevice(fmt.Sprintf("gpu-%d", i), bus, attribute("tray", fmt.Sprint(tray)), attribute("clique", fmt.Sprint(tray/trays))))
		nics = append(nics, newDevice(fmt.Sprintf("nic-%d", i), bus))
		if r.IntN(10) < 4 {
			c.running(gpuDriver, "node", fmt.Sprintf("gpu-%d", i))
		}
		if r.IntN(10) < 4 {
			c.running(nicDriver, "node", fmt.Sprintf("nic-%d", i))
		}
	}
	c.pool(gpuDriver, "node", gpus...)
	c.pool(nicDriver, "node", nics...)
	claim := c.claim("pending", requests(n, "gpu")...)
	names := requestNames(claim.Spec.Devices.Requests)
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, requests(n, "nic")...)
	for i := range n {
		matching(claim, pcieRoot, names[i], fmt.Sprintf("nic-%d", i))
	}
	if r.IntN(2) == 0 { // place each NIC after its GPU
		for i, asked := range slices.Clone(claim.Spec.Devices.Requests) {
			claim.Spec.Devices.Requests[i%n*2+i/n] = asked
		}
	}
	matching(claim, "gpu.example.com/clique", names...)
	differing(claim, "gpu.example.com/tray", names...)
	return c.Case
}
