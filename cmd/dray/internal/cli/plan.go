// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/simulate"
)

// anyAnswer are new nodes that can be like the same ones.
type anyAnswer struct {
	// Like are the nodes that these can be like, in the order of --like. Nodes and Pods are how many
	// there are.
	Like  []string `json:"like"`
	Nodes int      `json:"nodes"`
	Pods  int      `json:"pods"`
}

// planAny places the pending pods on the nodes there are, then on new ones, each of which can be like
// any of some.
func (s *simulation) planAny(ctx context.Context, o *origin, f *output, like []string, most int) error {
	var templates []*simulate.Template
	for i, name := range like {
		if slices.Contains(like[:i], name) {
			continue
		}
		template, err := s.state.TemplateOf(name, ofDaemonSet)
		if err != nil {
			return fmt.Errorf("--like: %w", err)
		}
		templates = append(templates, template)
	}
	undecided, err := s.state.Any("any", templates...)
	if err != nil {
		return fmt.Errorf("--any: %w", err)
	}
	sim := s.state.Sim()
	var nodes []simulate.Node
	pods := make(map[simulate.Node]int)
	unfit, open := 0, 0
	for _, shape := range s.shapes {
		result, err := s.placeOn(ctx, sim, shape, undecided, most)
		if err != nil {
			return err
		}
		unfit, open = unfit+result.Unfit, open+result.Undecided
		for placement := range result.Placements() {
			if n := placement.Node; n.Template() == undecided {
				if pods[n] == 0 {
					nodes = append(nodes, n)
				}
				pods[n]++
			}
		}
	}
	if err := s.showAny(o, f, options(sim, nodes, pods)); err != nil || unfit+open == 0 {
		return err
	}
	o.streams.note("%s without a place, %d undecided", render.Count(unfit, "pod"), open)
	return errNotPlaced
}

// options puts nodes with the same options together.
func options(sim *simulate.Sim, nodes []simulate.Node, pods map[simulate.Node]int) []*anyAnswer {
	var answers []*anyAnswer
	for _, n := range nodes {
		var like []string
		for _, template := range sim.Options(n) {
			like = append(like, template.Node().Name)
		}
		at := slices.IndexFunc(answers, func(a *anyAnswer) bool { return slices.Equal(a.Like, like) })
		if at < 0 {
			at = len(answers)
			answers = append(answers, &anyAnswer{Like: like})
		}
		answers[at].Nodes, answers[at].Pods = answers[at].Nodes+1, answers[at].Pods+pods[n]
	}
	return answers
}

func (s *simulation) showAny(o *origin, f *output, answers []*anyAnswer) error {
	var rows [][]string
	var items []any
	for _, a := range answers {
		rows = append(rows, []string{strings.Join(a.Like, ","), fmt.Sprint(a.Nodes), fmt.Sprint(a.Pods)})
		items = append(items, a)
	}
	return s.show(o, f, "SimulatedAnyPlanList", []string{"LIKE ANY OF", "NODES", "PODS"}, rows, items)
}
