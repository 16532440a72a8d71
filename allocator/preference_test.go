// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// drawPreferences draws at most two for a claim.
func (s *smallCase) drawPreferences(more *extension.Claim, c *resourceapi.ResourceClaim) {
	for range s.IntN(3) {
		p := extension.Preference{MatchAttribute: []resourceapi.FullyQualifiedName{numa, numa, modelOfA}[s.IntN(3)]}
		first := &c.Spec.Devices.Requests[0]
		switch {
		case s.IntN(3) == 0:
			p.Across = true
		case s.IntN(3) == 0 && len(first.FirstAvailable) > 0:
			p.Requests = []string{"r0/o0", "r1"}[:len(c.Spec.Devices.Requests)]
		case s.IntN(3) == 0:
			p.Requests = []string{"r0"}
		}
		more.Preferred = append(more.Preferred, p)
	}
}

// smallPreference is a preference of one claim, or of all for which it is across.
type smallPreference struct {
	extension.Preference
	claim int
}

// preferences lists those of all claims that are not allocated, the most important first.
func (s *smallCase) preferences() (list []smallPreference) {
	for i, more := range s.extension {
		for _, p := range more.Preferred {
			known := p.Across && slices.ContainsFunc(list, func(other smallPreference) bool { return other.Across && other.MatchAttribute == p.MatchAttribute })
			if s.claims[i].Status.Allocation == nil && !known {
				list = append(list, smallPreference{p, i})
			}
		}
	}
	return list
}

// has reports whether the devices chosen have a preference.
func (p smallPreference) has(e *enumeration) bool {
	covers := func(claim int, name string) bool {
		if p.Across {
			return slices.ContainsFunc(e.extension[claim].Preferred, func(other extension.Preference) bool { return other.Across && other.MatchAttribute == p.MatchAttribute })
		}
		request, _, _ := strings.Cut(name, "/")
		return claim == p.claim && (len(p.Requests) == 0 || slices.Contains(p.Requests, name) || slices.Contains(p.Requests, request))
	}
	var values []string
	for _, pick := range e.chosen {
		if covers(pick.claim, pick.request) {
			values = append(values, pick.device.value(p.MatchAttribute))
		}
	}
	if len(values) == 0 {
		return true
	}
	for i, c := range e.claims {
		if c.Status.Allocation != nil && p.Across && covers(i, "") {
			held := e.heldBy(c)
			if held == nil {
				return false
			}
			values = append(values, held.value(p.MatchAttribute))
		}
	}
	return !slices.ContainsFunc(values, func(v string) bool { return v == "" || v != values[0] })
}

// value is that of an attribute, empty if the device has none.
func (d *smallDevice) value(attribute resourceapi.FullyQualifiedName) string {
	switch {
	case attribute == numa && d.numa >= 0:
		return fmt.Sprint(d.numa)
	case attribute == modelOfA && d.Driver == "a.example.com":
		return d.model
	}
	return ""
}

// preferring compiles a claim with preferences.
func preferring(options allocator.Options, c *resourceapi.ResourceClaim, preferences ...extension.Preference) (*allocator.Problem, error) {
	options.Features = allocator.AllFeatures()
	return allocator.New(options).CompileExtended([]*resourceapi.ResourceClaim{c}, []extension.Claim{{Preferred: preferences}}, allocator.ClassMap(gpuClass))
}

const (
	root = resourceapi.FullyQualifiedName("gpu.example.com/root")
	uuid = resourceapi.FullyQualifiedName("gpu.example.com/uuid")
)

// outcomeHere is what a problem comes to on the node "here".
func outcomeHere(t *testing.T, problem *allocator.Problem, state *pools.State) allocator.Outcome {
	t.Helper()
	outcome, err := problem.Allocate(t.Context(), state, node("here"))
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// A preference costs a search of its own only if the first solution does not have it.
func TestPreferenceThatHoldsCostsNothing(t *testing.T) {
	state := clusterOf(gpus("here", 4, "x")).State()
	plain := outcomeHere(t, compile(allocator.Options{}, claim("c", 2)), state)
	problem, err := preferring(allocator.Options{}, claim("c", 2), extension.Preference{MatchAttribute: root})
	if err != nil {
		t.Fatal(err)
	}
	outcome := outcomeHere(t, problem, state)
	if got, want := chosen(outcome), chosen(plain); got != want || outcome.Stats().Steps != plain.Stats().Steps {
		t.Errorf("%s with %d steps, without a preference %s with %d", got, outcome.Stats().Steps, want, plain.Stats().Steps)
	}
}

// A missed preference names the attribute and the requests.
func TestMissed(t *testing.T) {
	state := clusterOf(unique(gpus("here", 4, "x"))).State()
	problem, err := preferring(allocator.Options{}, claim("c", 1, 2),
		extension.Preference{MatchAttribute: uuid, Requests: []string{"r1"}}, extension.Preference{MatchAttribute: root, Requests: []string{"r1"}})
	if err != nil {
		t.Fatal(err)
	}
	outcome := outcomeHere(t, problem, state)
	if got, want := chosen(outcome), "r0=gpu-0 r1=gpu-2 r1=gpu-3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := []allocator.Missed{{Rank: 0, MatchAttribute: uuid, Requests: []string{"r1"}}}
	if got := outcome.(*allocator.Assignment).Missed(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A search for a preference that uses up the budget leaves the solution that there is, says so, and is
// not remembered for other nodes.
func TestUndecidedPreference(t *testing.T) {
	// Two GPUs have a root in common. Finding out that three do not takes more steps than choosing three.
	state := clusterOf(gpus("here", 40, "x")).State()
	c := claim("c", 1, 1, 1)
	options := allocator.Options{Budget: 7}
	problem, err := preferring(options, c, extension.Preference{MatchAttribute: root})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		outcome := outcomeHere(t, problem, state)
		assignment, ok := outcome.(*allocator.Assignment)
		if !ok {
			t.Fatalf("got %v", outcome)
		}
		if missed := assignment.Missed(); len(missed) != 1 || !missed[0].Undecided {
			t.Errorf("missed %+v", missed)
		}
		if steps := outcome.Stats().Steps; steps == 0 || steps > 2*options.Budget+2 {
			t.Errorf("%d steps", steps)
		}
	}
}

// The searches for preferences are counted together, and have one budget together.
func TestPreferencesShareABudget(t *testing.T) {
	state := clusterOf(gpus("here", 40, "x")).State()
	ask := func(budget int64, preferences ...extension.Preference) (int64, []allocator.Missed) {
		t.Helper()
		problem, err := preferring(allocator.Options{Budget: budget}, claim("c", 1, 1, 1), preferences...)
		if err != nil {
			t.Fatal(err)
		}
		outcome := outcomeHere(t, problem, state)
		assignment, ok := outcome.(*allocator.Assignment)
		if !ok {
			t.Fatalf("got %v", outcome)
		}
		return outcome.Stats().Steps, assignment.Missed()
	}
	// Two GPUs have a root in common, three do not.
	three, two := extension.Preference{MatchAttribute: root}, extension.Preference{MatchAttribute: root, Requests: []string{"r1", "r2"}}
	plain, _ := ask(0)
	forThree, missed := ask(0, three)
	if forThree -= plain; len(missed) != 1 || missed[0].Undecided || forThree <= 1 {
		t.Fatalf("%d steps without a preference, %d more with it; missed %+v", plain, forThree, missed)
	}
	if got, missed := ask(0, three, three); got != plain+2*forThree || len(missed) != 2 {
		t.Errorf("%d steps, want %d; missed %+v", got, plain+2*forThree, missed)
	}
	required := claim("c", 1, 1, 1)
	required.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: two.Requests, MatchAttribute: &two.MatchAttribute}}
	outcome := outcomeHere(t, compile(allocator.Options{}, required), state)
	if got, missed := ask(0, two); got != plain+outcome.Stats().Steps || len(missed) != 0 {
		t.Errorf("%d steps, want %d and %d; missed %+v", got, plain, outcome.Stats().Steps, missed)
	}
	budget := max(plain, forThree) + 1
	if _, missed := ask(budget, three, three); len(missed) != 2 || missed[0].Undecided || !missed[1].Undecided {
		t.Errorf("with a budget of %d, missed %+v: want the second to be undecided", budget, missed)
	}
}

// A preference never makes a claim unsatisfiable, and is never cited.
func TestPreferenceNeverMakesClaimsUnsatisfiable(t *testing.T) {
	state := clusterOf(unique(gpus("here", 4, "x"))).State()
	// No two GPUs have a uuid in common, but it is the second request that cannot be met.
	problem, err := preferring(allocator.Options{}, claim("c", 2, 5), extension.Preference{MatchAttribute: uuid, Requests: []string{"r0"}})
	if err != nil {
		t.Fatal(err)
	}
	outcome := outcomeHere(t, problem, state)
	none, ok := outcome.(*allocator.Unsatisfiable)
	if !ok {
		t.Fatalf("got %v", outcome)
	}
	if core := none.Explain().Core; len(core) != 1 || core[0].Request != "r1" {
		t.Errorf("cited are %+v", core)
	}
}

func TestPreferencesThatAreWrong(t *testing.T) {
	all := claim("c", 1)
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	many := slices.Repeat([]extension.Preference{{MatchAttribute: root}}, extension.MatchesMaxSize+1)
	for _, c := range []struct {
		claim *resourceapi.ResourceClaim
		asked []extension.Preference
		want  string
	}{
		{claim("c", 1), []extension.Preference{{MatchAttribute: root}, {}}, "claim default/c: extension: preference 1: matchAttribute is empty"},
		{claim("c", 1), []extension.Preference{{MatchAttribute: root, Requests: []string{"r0", "x"}}}, "claim default/c: extension: preference 0: request x is not there"},
		{claim("c", 1), []extension.Preference{{MatchAttribute: root, Requests: []string{"r0"}, Across: true}}, "claim default/c: extension: preference 0: requests do not go with across"},
		{all, []extension.Preference{{MatchAttribute: root}}, "claim default/c: extension: preference 0: request r0: a preference does not go with allocationMode All"},
		{claim("c", 1), many, "claim default/c: extension: 33 preferences, a claim has at most 32"},
	} {
		if _, err := preferring(allocator.Options{}, c.claim, c.asked...); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// If a claim lacks several names, the same one is named each time.
func TestUnknownNamesAreRefusedInOrder(t *testing.T) {
	asked := extension.Claim{Requests: make(map[string]extension.Request)}
	for _, name := range []string{"r0", "y", "z", "x", "w"} {
		asked.Requests[name] = extension.Request{UpTo: 2}
	}
	a := allocator.New(allocator.Options{})
	want := "claim default/c: extension: request w is not there, or has alternatives"
	for range 64 {
		_, err := a.CompileExtended([]*resourceapi.ResourceClaim{claim("c", 1)}, []extension.Claim{asked}, allocator.ClassMap(gpuClass))
		if err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
}
