// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/dray-project/dray/gang"
)

// domains lists the sets of rails that devices may be of, in order.
func (s *small) domains() [][]int {
	var rails []int
	for _, p := range append([]int{s.nodes}, numbers(s.nodes)...) {
		for _, d := range s.devices {
			if d.pool == p && d.rail >= 0 && !slices.Contains(rails, d.rail) {
				rails = append(rails, d.rail)
			}
		}
	}
	if len(rails) <= s.across.most {
		return [][]int{append([]int{}, rails...)}
	}
	var list [][]int
	for i, rail := range rails {
		if s.across.most == 1 {
			list = append(list, []int{rail})
			continue
		}
		for _, other := range rails[i+1:] {
			list = append(list, []int{rail, other})
		}
	}
	return list
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// mostIn is how many pods fit together if devices are of some rails, nil for all.
func (s *small) mostIn(rails []int) int {
	before := s.allowed
	defer func() { s.allowed = before }()
	s.allowed = rails
	for n := len(s.pods); n > 0; n-- {
		if s.some(nil, 0, n) {
			return n
		}
	}
	return 0
}

// checkDomain compares the domain of an answer with the first one in which as many pods as possible fit, and limits the case to it.
func (s *small) checkDomain(t *testing.T, r *gang.Result, most int) {
	t.Helper()
	if s.across.most == 0 {
		return
	}
	network := slices.ContainsFunc(s.devices, func(d device) bool { return d.pool == s.nodes })
	var want []int
	for _, rails := range s.domains() {
		if s.mostIn(rails) == most {
			want = rails
			break
		}
	}
	var got []int
	for _, domain := range r.Domain {
		got = []int{}
		for _, literal := range domain.Values {
			rail, _ := strconv.Atoi(literal)
			got = append(got, rail)
		}
	}
	if exact := !network && !s.administers() && !s.shares() && most == len(s.pods) && s.least == most; exact && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the domain is %v, want %v\n%s", got, want, s)
	}
	s.allowed = got
}
