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

// Outcome is what a what-if makes of the cluster.
type Outcome struct {
	// Number names it: its explanations are asked for by it.
	Number int `json:"number"`
	// Delta is what differs from the picture, nil if Picture is there.
	Delta   *Delta   `json:"delta,omitempty"`
	Picture *Picture `json:"picture,omitempty"`
	// Commands do or ask the same in a terminal. Manifests are what they read from standard input.
	Commands  []string `json:"commands"`
	Manifests string   `json:"manifests,omitempty"`
}

// mostOutcomes is how many what-ifs are kept for their explanations.
const mostOutcomes = 4

// mostThinking is how long a what-if may take.
const mostThinking = time.Minute

// WhatIf computes what a change would make of the cluster. Nothing of the source is changed.
func (s *Source) WhatIf(ctx context.Context, change *Change) (*Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, mostThinking, fmt.Errorf("no answer within %s", mostThinking))
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
	delete(s.outcomes, s.asked-mostOutcomes)
	return outcome, nil
}

// after is the picture that a what-if has made, nil if it is not kept any more.
func (s *Source) after(number string) *Picture {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.outcomes[n]
}

// commands are lines for a shell.
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

// shellWord quotes a word that a shell would not take as it is.
func shellWord(word string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	if word != "" && strings.Trim(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
