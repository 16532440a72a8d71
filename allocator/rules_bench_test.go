// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/benchmarks"
	"github.com/dray-project/dray/pools"
)

// searchRules are the rules of the search, by the names that rows have.
var searchRules = []struct {
	name string
	rule solver.Rules
}{
	{"none", 0},
	{"ahead", solver.RuleAhead},
	{"root", solver.RuleRoot},
	{"pairs", solver.RulePairs},
	{"flow", solver.RuleFlow},
	{"cumulative", solver.RuleCumulative},
	{"distinct", solver.RuleDistinct},
	{"support", solver.RuleSupport},
	{"root-support", solver.RuleRootSupport},
	{"cardinality", solver.RuleCardinality},
	{"sums", solver.RuleSums},
	{"symmetry", solver.RuleSymmetry},
	{"nogoods", solver.RuleNogoods},
	{"equal", solver.RuleEqual},
	{"packing", solver.RulePacking},
	{"serving", solver.RuleServing},
	{"completion", solver.RuleCompletion},
}

// ruleInputs is how many inputs of each family are decided.
const ruleInputs = 8

// measuredKinds are the families that people write, and the cliffs at a size of sixteen or so.
func measuredKinds() (names []string, inputs map[string][]*alloctest.Case) {
	const cliffs = "cliffs"
	inputs = make(map[string][]*alloctest.Case)
	for _, family := range benchmarks.Families() {
		names = append(names, family.Name)
		for seed := range uint64(ruleInputs) {
			inputs[family.Name] = append(inputs[family.Name], family.Build(seed))
		}
	}
	for _, cliff := range benchmarks.Cliffs() {
		k := cliff.Sizes[0]
		for _, size := range cliff.Sizes {
			if size <= 16 {
				k = size
			}
		}
		inputs[cliffs] = append(inputs[cliffs], cliff.Build(k))
	}
	return append(names, cliffs), inputs
}

// BenchmarkRule decides inputs with all rules of the search, and without one of them: what it saves is the difference. Rows
// count, and do not time: steps are the same in each run. One operation is all inputs of a kind; undecided/op is for how many the
// budget was not enough, which count with all of it.
func BenchmarkRule(b *testing.B) {
	names, inputs := measuredKinds()
	for _, name := range names {
		for _, without := range searchRules {
			steps, undecided := int64(0), 0
			for _, c := range inputs[name] {
				outcome := decideWithout(b, c, without.rule)
				steps += outcome.Stats().Steps
				if _, spent := outcome.(*allocator.Undecided); spent {
					undecided++
				}
			}
			b.Run("kind="+name+"/without="+without.name, func(b *testing.B) {
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(steps), "steps/op")
				b.ReportMetric(float64(undecided), "undecided/op")
			})
		}
	}
}

// inOrder is first fit under another name: nothing is known of the question before.
type inOrder struct{}

func (inOrder) Before(_, _ allocator.Candidate) bool { return false }

// decideWithout decides a case without a rule.
func decideWithout(tb testing.TB, c *alloctest.Case, rule solver.Rules) allocator.Outcome {
	tb.Helper()
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Assume(claim); err != nil {
			tb.Fatal(err)
		}
	}
	a := allocator.New(allocator.Options{Features: c.Features, Policy: inOrder{}}).WithoutRules(rule)
	problem, err := a.Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		tb.Fatal(err)
	}
	at := slices.IndexFunc(c.Nodes, func(node *corev1.Node) bool { return node.Name == c.Node })
	outcome, err := problem.Allocate(tb.Context(), ledger.State(), c.Nodes[at])
	if err != nil {
		tb.Fatal(err)
	}
	return outcome
}
