// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Outcome is the result of a what-if.
type Outcome struct {
	// Number identifies the outcome in requests for its explanations.
	Number int `json:"number"`
	// Delta is the difference to the current picture. It is nil if Picture is set.
	Delta   *Delta   `json:"delta,omitempty"`
	Picture *Picture `json:"picture,omitempty"`
	// Commands are shell commands with the same effect. Manifests are their standard input.
	Commands  []string `json:"commands"`
	Manifests string   `json:"manifests,omitempty"`
}

// maxOutcomes is how many outcomes are kept for their explanations.
const maxOutcomes = 4

// whatIfTimeout limits the time of a what-if.
const whatIfTimeout = time.Minute

// WhatIf computes the result of a change. The source does not change.
func (s *Source) WhatIf(ctx context.Context, change *Change) (*Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, whatIfTimeout, fmt.Errorf("no answer within %s", whatIfTimeout))
	defer cancel()
	s.lock.Lock()
	objects, before := s.objects, s.last
	s.lock.Unlock()
	c, err := s.Build(objects)
	if err != nil {
		return nil, err
	}
	changed, err := s.apply(change, objects, c)
	if err != nil {
		return nil, err
	}
	if c, err = s.Build(changed); err != nil {
		return nil, err
	}
	after, err := NewPicture(ctx, c, Options{Covers: s.Covers, Notes: before.Notes, Source: s.Name, Time: time.Now(), Before: before})
	if err != nil {
		return nil, err
	}
	outcome := &Outcome{Commands: s.commands(change), Manifests: change.YAML, Delta: Compare(before, after)}
	if outcome.Delta == nil {
		outcome.Picture = after
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.asked++
	outcome.Number = s.asked
	if s.outcomes == nil {
		s.outcomes = make(map[int]*Picture)
	}
	s.outcomes[s.asked] = after
	delete(s.outcomes, s.asked-maxOutcomes)
	return outcome, nil
}

// after returns the picture of a what-if, nil if it is not kept any more.
func (s *Source) after(number string) *Picture {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.outcomes[n]
}

// commands returns shell commands with the same effect as a change.
func (s *Source) commands(change *Change) []string {
	var lines []string
	line := func(words ...string) {
		quoted := make([]string, len(words))
		for i, word := range words {
			quoted[i] = shellWord(word)
		}
		lines = append(lines, strings.Join(quoted, " "))
	}
	dray := func(words ...string) {
		line(append([]string{"dray"}, words...)...)
		if s.Arguments != "" {
			lines[len(lines)-1] += " " + s.Arguments
		}
	}
	var whatIf []string
	if t := change.Taint; t != nil {
		whatIf = append(whatIf, "--taint", t.Taint)
		for _, flag := range [][2]string{{"--driver", t.Driver}, {"--pool", t.Pool}, {"--device", t.Device}, {"--node", t.Node}} {
			if flag[1] != "" {
				whatIf = append(whatIf, flag[0], flag[1])
			}
		}
	}
	for _, like := range slices.Sorted(maps.Keys(change.Add)) {
		whatIf = append(whatIf, "--add", like+"="+strconv.Itoa(change.Add[like]))
	}
	if len(whatIf) > 0 {
		dray(append([]string{"simulate", "what-if"}, whatIf...)...)
	}
	for _, node := range change.Cordon {
		line("kubectl", "cordon", node)
	}
	if len(change.Drain) > 0 {
		dray(append([]string{"simulate", "drain"}, change.Drain...)...)
	}
	for _, pod := range change.Remove {
		namespace, name, _ := strings.Cut(pod, "/")
		line("kubectl", "delete", "pod", name, "-n", namespace)
	}
	switch {
	case change.YAML == "":
	case s.Arguments == "":
		line("kubectl", "apply", "--dry-run=server", "-f", "-")
	default:
		dray("allocate", "-f", "-")
	}
	return lines
}

// shellWord quotes a word for a shell, if necessary.
func shellWord(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
