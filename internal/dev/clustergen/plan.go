// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

// Profile selects how hard the generated problems are.
type Profile string

const (
	// Default covers every feature with problems that mostly need little search.
	Default Profile = "default"
	// Hard has many equal devices, few attribute values, contended counters and
	// counts near the limit, so that deciding takes search.
	Hard Profile = "hard"
	// Shares has small clusters of devices that are shared without capacity, under
	// several constraints, for several claims with counts above one.
	Shares Profile = "shares"
	// Pairs has small clusters that combine two features with each other and with few
	// others; all pairs are equally frequent.
	Pairs Profile = "pairs"
	// Gates has cases as in Default, with the features on that each implementation of
	// upstream's can do, that Kubernetes 1.37 has on by default, or none at all.
	Gates Profile = "gates"
)

// Profiles lists all profiles. A share of the cases of Default is drawn as in
// Shares and Pairs.
func Profiles() []Profile { return []Profile{Default, Hard, Shares, Pairs, Gates} }

// plan says which topics a case covers. Topics are drawn independently, so that
// all combinations occur.
type plan struct {
	hard bool

	drivers, poolsPerDriver int
	slots                   int // upper limit for devices wanted by exact counts

	lists, taints, counters, groups, capacity bool
	binding, skipOperations, multiHost        bool
	derived, admin, prioritized, all          bool
	selective                                 bool // requests have selectors
	constraints, configs, used, crowded       bool

	trouble  trouble
	erroring bool
}

// trouble is something wrong with one pool of the case.
type trouble int

const (
	noTrouble trouble = iota
	incompletePool
	stalePool
	stalePoolElsewhere
	duplicateDevice
	unknownCounter
	duplicateCounterSet
	unreachableSlice
	// The last two provoke documented differences to upstream and stay rare.
	newerElsewhere
	countMismatch
)

func (g *generator) drawPlan(profile Profile) {
	g.plan = plan{
		hard:           profile == Hard,
		drivers:        pick(g, 1, 1, 2, 2, 2),
		poolsPerDriver: 1 + g.intn(2),
		slots:          1 + g.intn(6),
		lists:          g.chance(0.3),
		taints:         g.chance(0.2),
		counters:       g.chance(0.3),
		capacity:       g.chance(0.3),
		binding:        g.chance(0.15),
		skipOperations: g.chance(0.12),
		multiHost:      g.chance(0.12),
		derived:        g.chance(0.15),
		admin:          g.chance(0.12),
		prioritized:    g.chance(0.35),
		all:            g.chance(0.2),
		selective:      true,
		constraints:    g.chance(0.4),
		configs:        g.chance(0.25),
		used:           g.chance(0.5),
		crowded:        g.chance(0.06),
		trouble:        g.drawTrouble(),
		erroring:       g.chance(0.04),
	}
	g.plan.groups = g.plan.counters && g.chance(0.35)
	if g.plan.hard {
		g.hardenPlan()
	}
	if g.plan.crowded {
		g.thinPlan()
	}
}

func (g *generator) hardenPlan() {
	g.plan.slots = 3 + g.intn(5)
	g.plan.poolsPerDriver = 1
	g.plan.constraints = g.chance(0.8)
	g.plan.counters = g.chance(0.5)
	g.plan.all = g.chance(0.05)
	g.plan.crowded = false
}

func (g *generator) drawTrouble() trouble {
	switch n := g.intn(1000); {
	case n < 40:
		return incompletePool
	case n < 80:
		return stalePool
	case n < 110:
		return stalePoolElsewhere
	case n < 145:
		return duplicateDevice
	case n < 165:
		return unknownCounter
	case n < 170:
		return duplicateCounterSet
	case n < 200:
		return unreachableSlice
	case n < 204:
		return newerElsewhere
	case n < 208:
		return countMismatch
	}
	return noTrouble
}

// thinPlan leaves a case with many devices no room for what multiplies combinations.
func (g *generator) thinPlan() {
	g.plan.slots = pick(g, 1, 1, 1, 1, 1, 40)
	g.plan.drivers, g.plan.poolsPerDriver = 1, 1
	g.plan.constraints, g.plan.derived, g.plan.counters, g.plan.groups = false, false, false, false
	g.plan.taints, g.plan.used, g.plan.capacity, g.plan.multiHost = false, false, false, false
	g.plan.prioritized = g.chance(0.6)
	g.plan.selective = g.chance(0.1)
}
