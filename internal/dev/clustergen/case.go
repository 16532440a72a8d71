// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// generator carries the source of randomness and the case under construction.
type generator struct {
	rand *rand.Rand
	plan plan
	c    *alloctest.Case

	drivers   []string
	poolsMade int
	claimUIDs int
	// placed lists the devices of the case with their slice, to be allocated
	// beforehand and to size requests.
	placed []placedDevice
}

type placedDevice struct {
	slice  *resourceapi.ResourceSlice
	device *resourceapi.Device
}

// Generate returns the case for a seed. It is safe for concurrent use, and the
// result shares nothing with other results.
func Generate(seed uint64, profile Profile) *alloctest.Case {
	g := newGenerator(seed)
	g.c = &alloctest.Case{Name: fmt.Sprintf("%s-%d", profile, seed), Features: allFeatures}
	if profile == Gates {
		g.c.Features = g.gates()
	}
	switch g.kind(profile) {
	case Shares:
		g.buildSmall(g.sharesFeatures())
	case Pairs:
		g.buildSmall(g.pairFeatures())
	default:
		g.build(profile)
	}
	return g.c
}

func newGenerator(seed uint64) *generator {
	return &generator{rand: rand.New(rand.NewPCG(seed, 0x64726179))}
}

// allFeatures are on in small cases.
var allFeatures = allocator.AllFeatures()

// kind is the profile after which a case is built: that of the run, except that
// Default has all kinds.
func (g *generator) kind(profile Profile) Profile {
	if n := g.intn(100); profile == Default && n < 20 || profile == Gates && n < 50 {
		return []Profile{Shares, Pairs}[n%2]
	}
	return profile
}

func (g *generator) build(profile Profile) {
	g.drawPlan(profile)
	if profile != Gates {
		g.c.Features = g.features()
	}
	g.drivers = []string{gpuDriver, nicDriver}[:g.plan.drivers]
	g.addNodes()
	g.addClasses()
	g.addPools()
	g.addAllocated()
	g.addClaims()
	if g.plan.erroring {
		g.addError()
	}
	g.shuffleSlices()
	if g.chance(0.5) {
		g.addOddities()
	}
}

// features is everything in three quarters of the cases; else some gates are off.
func (g *generator) features() allocator.Features {
	f := allocator.AllFeatures()
	if !g.chance(0.25) {
		return f
	}
	gates := gatesOf(&f)
	for range 1 + g.intn(4) {
		*gates[g.intn(len(gates))] = false
	}
	return f
}

// uses decides whether a request uses a planned feature. With its gate off that is
// an error, which must not dominate.
func (g *generator) uses(planned, gate bool) bool {
	return planned && (gate || g.chance(0.1))
}

func (g *generator) addNodes() {
	for i := range 2 + g.intn(2) {
		node := &corev1.Node{}
		node.Name = fmt.Sprintf("node-%d", i)
		node.Labels = map[string]string{
			"zone": pick(g, "east", "west"),
			"rack": pick(g, "r1", "r2"),
		}
		if g.chance(0.6) {
			node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
		}
		g.c.Nodes = append(g.c.Nodes, node)
	}
	g.c.Node = g.c.Nodes[g.intn(len(g.c.Nodes))].Name
}

func (g *generator) shuffleSlices() {
	g.rand.Shuffle(len(g.c.Slices), func(i, j int) {
		g.c.Slices[i], g.c.Slices[j] = g.c.Slices[j], g.c.Slices[i]
	})
}

func (g *generator) intn(n int) int { return g.rand.IntN(n) }

func (g *generator) chance(p float64) bool { return g.rand.Float64() < p }

func pick[T any](g *generator, choices ...T) T { return choices[g.intn(len(choices))] }
