// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// usualBounds are large enough for all tests.
var usualBounds = Bounds{Questions: 1 << 10, Nodes: 1 << 10, States: 1 << 10, Answers: 1 << 10, Total: 1 << 20}

func newAsker(t *testing.T, bounds Bounds) *Asker {
	t.Helper()
	k, err := New(Options{Features: allocator.AllFeatures(), Budget: allocator.DefaultBudget, Bounds: bounds}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Numbers of equal things are kept across clusters until there are too many. No number is used again, as
// answers are remembered by them.
func TestReadSetIsDroppedWhenTooLarge(t *testing.T) {
	k := newAsker(t, usualBounds)
	question := func(k *Asker, i int) *Question {
		spec := k.Spec(&resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: fmt.Sprint("r", i)}}}, extension.Claim{})
		return k.Question([]*Spec{spec})
	}
	for i := range usualBounds.Questions {
		question(k, i)
	}
	next := k.Next(nil, 0, 0)
	first := question(k, 0)
	if n := next.Sizes().Questions; n != usualBounds.Questions || question(next, 0) != first {
		t.Errorf("%d questions are known, want %d, and the same ones", n, usualBounds.Questions)
	}
	question(next, usualBounds.Questions)
	if n := next.Sizes(); n.Questions != 1 || n.Specs != 1 {
		t.Errorf("%d questions and %d specs are known, want one", n.Questions, n.Specs)
	}
	if again := question(next, 0); again.id <= usualBounds.Questions || again.Specs[0].Key != first.Specs[0].Key {
		t.Errorf("the number %d is given again, or the key is another one", again.id)
	}
}

// A state keeps as many answers as it may: questions whose numbers are far apart take their places from each other.
func TestAnswersOfAStateAreBounded(t *testing.T) {
	const most = 2 * answerPageSize
	s := newState(&content{readSet: emptyReadSet(pools.Gates{}, &stateCache{Bounds: Bounds{Answers: most, Total: 1 << 20}})}, nil)
	for id := range 10 * most {
		a := (&Answer{question: &Question{id: id}}).about(s)
		if s.learn(a) != a || s.learn((&Answer{question: a.question}).about(s)) != a {
			t.Fatalf("question %d: the answer is another one", id)
		}
		for before := range id + 1 {
			if got := s.known(before); (got != nil) != (before > id-most) || got != nil && got.question.id != before {
				t.Fatalf("after question %d: the answer to %d is known: %v", id, before, got != nil)
			}
		}
	}
	if n := len(*s.answers.Load()); n != most/answerPageSize {
		t.Errorf("there are %d pages", n)
	}
}
