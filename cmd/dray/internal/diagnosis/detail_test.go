// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import "testing"

// counts are values, given as a device each.
func countsOf(f form, whats ...string) Detail {
	c := Counts{name: "model is ", form: f, nodes: 1}
	for _, what := range whats {
		c.add(what, 1)
	}
	if f == holders {
		c.name = ""
	}
	return Detail{Text: "x: ", Counts: []Counts{c}}
}

func TestAddDetails(t *testing.T) {
	a, h := `"A"`, `"H"`
	for name, test := range map[string]struct {
		nodes   [][]Detail
		want    string
		differs bool
	}{
		"one node":                         {[][]Detail{{countsOf(values, a, a, h)}}, `x: model is "A" (2), "H" (1)`, false},
		"nodes that agree":                 {[][]Detail{{countsOf(values, a, a, h)}, {countsOf(values, h, a, a)}}, `x: model is "A" (2), "H" (1)`, false},
		"one value, of other numbers":      {[][]Detail{{countsOf(values, a, a)}, {countsOf(values, a)}}, `x: model is "A"`, false},
		"values of two and one":            {[][]Detail{{countsOf(values, a)}, {countsOf(values, h)}, {countsOf(values, h)}}, `x: model is "H" on 2 nodes, "A" on 1`, true},
		"nodes with both":                  {[][]Detail{{countsOf(values, a, h)}, {countsOf(values, a)}}, `x: model is "A" on 2 nodes, "H" on 1`, true},
		"a third like both together":       {[][]Detail{{countsOf(values, a, h)}, {countsOf(values, a, a, a, h, h, h)}, {countsOf(values, a, a, h, h)}}, `x: model is "A" on 3 nodes, "H" on 3`, true},
		"nothing on one":                   {[][]Detail{{countsOf(values, a)}, {}}, `x: model is "A" on 1 node`, true},
		"nothing on the first":             {[][]Detail{{}, {countsOf(values, a)}}, `x: model is "A" on 1 node`, true},
		"holders of one":                   {[][]Detail{{countsOf(holders, "p", "p", "q")}}, "x: 2 by p, 1 by q", false},
		"holders of shared devices":        {[][]Detail{{countsOf(holders, "p", "q")}, {countsOf(holders, "p", "q")}}, "x: 1 by p, 1 by q", false},
		"holders on nodes of their own":    {[][]Detail{{countsOf(holders, "p")}, {countsOf(holders, "q")}}, "x: by p, q, each on one node", true},
		"holders on several":               {[][]Detail{{countsOf(holders, "p", "p", "q")}, {countsOf(holders, "q")}}, "x: by q on 2 nodes, p on 1", true},
		"many holders":                     {[][]Detail{{countsOf(holders, "p", "q", "r")}, {countsOf(holders, "s", "t", "u")}}, "x: by p, q, r, s, t, and 1 other, each on one node", true},
		"a text that is true of all":       {[][]Detail{{plain("it is cold")}, {plain("it is cold")}}, "it is cold", false},
		"a text that is true of the first": {[][]Detail{{plain("5 left")}, {plain("3 left")}}, "for example on n1: 5 left", true},
	} {
		details := test.nodes[0]
		for _, more := range test.nodes[1:] {
			details = Add(details, more, "n1")
		}
		if len(details) != 1 || details[0].String() != test.want || details[0].Differs() != test.differs {
			t.Errorf("%s: got %v, want %s (differing: %v)", name, details, test.want, test.differs)
		}
	}
}
