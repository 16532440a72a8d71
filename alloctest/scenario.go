// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/dray-project/dray/allocator"
)

// Scenario is a Case with its correct outcome.
type Scenario struct {
	File string // topic, without folder and extension
	Name string // unique within its file
	Line int    // of the allocate directive, counted from 1
	Case *Case
	// Then is set if the case continues that of the scenario before. The devices that were allocated there are
	// in use, unless that scenario has DryRun set.
	Then, DryRun bool
	// Rules are the ids of the rules that the scenario proves, see Rules.
	Rules []string
	// Differs is the number of the decision that explains why Kubernetes' own allocator has another outcome.
	// Empty if it has the same.
	Differs string
	// Mentions are words that the text of an error, or an explanation, must contain.
	Mentions []string
	// Expected is the text of the correct outcome, see Render.
	Expected string
	// Explanation is what an allocator that explains refusals must say. Empty if the scenario does not require
	// a text.
	Explanation string
}

// Parse reads the text of a scenario file. Errors name file, line and field.
func Parse(file, text string) ([]Scenario, error) {
	p := parser{file: file, cluster: &cluster{}}
	directives, err := readDirectives(text)
	if err != nil {
		return nil, inFile(file, err)
	}
	for _, d := range directives {
		if err := p.directive(d); err != nil {
			return nil, inFile(file, at(d.line, err))
		}
	}
	return p.scenarios, nil
}

// parser keeps the cluster between directives.
type parser struct {
	file      string
	cluster   *cluster
	scenarios []Scenario
}

func (p *parser) directive(d directive) error {
	switch d.command {
	case "cluster":
		return p.redefine(d)
	case "allocate":
		return p.allocate(d)
	case "then":
		return p.then(d)
	case "explain":
		return p.explain(d)
	}
	return fmt.Errorf("unknown directive %q", d.command)
}

func (p *parser) redefine(d directive) (err error) {
	if len(d.args) > 0 {
		return fmt.Errorf("cluster: unexpected %q", d.args[0].Key)
	}
	if p.cluster, err = parseCluster(d.input, 0); err == nil && len(p.cluster.claims) > 0 {
		err = fmt.Errorf("cluster: claim %s belongs to an allocate directive", p.cluster.claims[0].Name)
	}
	return err
}

func (p *parser) explain(d directive) error {
	if len(p.scenarios) == 0 || len(d.input)+len(d.args) > 0 {
		return errors.New("explain: follows an allocate directive and takes nothing")
	}
	p.scenarios[len(p.scenarios)-1].Explanation = d.expected
	return nil
}

func (p *parser) allocate(d directive) error {
	more, err := parseCluster(d.input, p.cluster.shares)
	if err != nil {
		return err
	}
	if len(more.gone)+len(more.released) > 0 {
		return errors.New("allocate: gone and released belong to a then directive")
	}
	all := p.cluster.extended(more)
	s := Scenario{File: p.file, Line: d.line, Expected: d.expected, Case: &Case{
		Features:  allocator.AllFeatures(),
		Nodes:     all.nodes,
		Slices:    all.slices,
		Classes:   all.classes,
		Allocated: all.allocated,
		Claims:    all.claims,
	}}
	return within("allocate", p.add(s, d.args))
}

func (p *parser) add(s Scenario, args []datadriven.CmdArg) error {
	if err := s.arguments(args); err != nil {
		return err
	}
	for _, other := range p.scenarios {
		if other.Name == s.Name {
			return fmt.Errorf("%s is the name of the scenario on line %d, too", s.Name, other.Line)
		}
	}
	p.scenarios = append(p.scenarios, s)
	return nil
}

// arguments reads: name [node=] [rule=] [without=] [differs=] [mentions=] [dry-run]
func (s *Scenario) arguments(args []datadriven.CmdArg) error {
	if len(args) == 0 || len(args[0].Vals) > 0 {
		return errors.New("name missing")
	}
	s.Name = args[0].Key
	s.Case.Name = s.Name
	for _, arg := range args[1:] {
		if err := s.argument(arg); err != nil {
			return within(s.Name, within(arg.Key, err))
		}
	}
	if s.Case.Node == "" && len(s.Case.Nodes) > 0 {
		s.Case.Node = s.Case.Nodes[0].Name
	}
	for _, node := range s.Case.Nodes {
		if node.Name == s.Case.Node {
			return nil
		}
	}
	return within(s.Name, fmt.Errorf("node: the cluster has no node %q", s.Case.Node))
}

func (s *Scenario) argument(arg datadriven.CmdArg) error {
	switch arg.Key {
	case "node":
		s.Case.Node = strings.Join(arg.Vals, "")
	case "rule":
		s.Rules = arg.Vals
	case "dry-run":
		s.DryRun = true
	case "differs":
		s.Differs = strings.Join(arg.Vals, "")
	case "mentions":
		s.Mentions = arg.Vals
	case "without":
		return without(&s.Case.Features, arg.Vals)
	default:
		return errors.New("unknown argument")
	}
	return nil
}

// without switches features off by the field names of allocator.Features.
func without(features *allocator.Features, names []string) error {
	fields := reflect.ValueOf(features).Elem()
	for _, name := range names {
		field := fields.FieldByName(name)
		if !field.IsValid() {
			return fmt.Errorf("unknown feature %q", name)
		}
		field.SetBool(false)
	}
	return nil
}

func featuresOff(features allocator.Features) []string {
	fields := reflect.ValueOf(features)
	var off []string
	for i := range fields.NumField() {
		if !fields.Field(i).Bool() {
			off = append(off, fields.Type().Field(i).Name)
		}
	}
	return off
}
