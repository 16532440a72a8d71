// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Option changes how Run works.
type Option func(*runner)

// Peer says that the allocator is not Dray's. Scenarios marked with differs=... must then have another outcome
// than the expected one. So a mark is noticed when its reason is gone.
func Peer() Option { return func(r *runner) { r.peer = true } }

// Folder runs the scenario files (*.txt) of a folder instead of those embedded in the package. With the flag
// -rewrite, the answers of the allocator replace the expected outputs, except in marked scenarios with Peer.
func Folder(folder string) Option { return func(r *runner) { r.folder = folder } }

// Timeout bounds the time that each scenario may take. The default is 10 s.
func Timeout(d time.Duration) Option { return func(r *runner) { r.timeout = d } }

type runner struct {
	allocator Allocator
	peer      bool
	folder    string
	timeout   time.Duration
}

// Run runs all scenarios with an allocator, as subtests named file/scenario. It also checks that the
// allocator does not modify the case, and asks twice more: again, and with slices, classes, nodes and claims in
// use in another order. The answer must stay the same.
func Run(t *testing.T, a Allocator, options ...Option) {
	t.Helper()
	r := &runner{allocator: a, timeout: 10 * time.Second}
	for _, option := range options {
		option(r)
	}
	if r.folder != "" && rewriting() {
		r.rewrite(t)
		return
	}
	r.run(t)
}

func (r *runner) scenarios(t *testing.T) []Scenario {
	if r.folder == "" {
		return slices.Collect(Scenarios())
	}
	all, err := parseFolder(os.DirFS(r.folder), ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no scenarios in %s", r.folder)
	}
	return all
}

func (r *runner) run(t *testing.T) {
	all := r.scenarios(t)
	for start, end := 0, 0; start < len(all); start = end {
		for end < len(all) && all[end].File == all[start].File {
			end++
		}
		t.Run(all[start].File, func(t *testing.T) {
			for _, s := range all[start:end] {
				t.Run(s.Name, func(t *testing.T) { r.scenario(t, &s) })
			}
		})
	}
}

func (r *runner) scenario(t *testing.T, s *Scenario) {
	for _, complaint := range r.judge(t.Context(), s) {
		t.Errorf("%s.txt:%d: %s", s.File, s.Line, complaint)
	}
}

// judge returns what is wrong with the allocator's answers to a scenario.
func (r *runner) judge(ctx context.Context, s *Scenario) []string {
	outcome, complaints := r.ask(ctx, s.Case)
	answer := Render(s.Case, outcome)
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	switch same := answer == s.Expected; {
	case r.peer && s.Differs != "" && same:
		complain("is marked differs=%s, but does not differ", s.Differs)
		return complaints
	case r.peer && s.Differs != "":
		return complaints // Expected is not the peer's outcome, so there is nothing to compare
	case !same:
		complain("outcome (-expected +got):\n%s%s", cmp.Diff(s.Expected, answer), detail(outcome))
	}
	for _, word := range s.Mentions {
		if text := detail(outcome); text != "" && !strings.Contains(text, word) {
			complain("does not mention %s: %s", word, text)
		}
	}
	if explanation := outcome.Explanation + "\n"; s.Explanation != "" && outcome.Explanation != "" && explanation != s.Explanation {
		complain("explanation (-expected +got):\n%s", cmp.Diff(s.Explanation, explanation))
	}
	if again, _ := r.ask(ctx, s.Case); Render(s.Case, again) != answer {
		complain("asked again, got:\n%s", Render(s.Case, again))
	}
	if turned, _ := r.ask(ctx, reversed(s.Case)); Render(s.Case, turned) != answer {
		complain("with the cluster in reverse order, got:\n%s", Render(s.Case, turned))
	}
	return complaints
}

func detail(o Outcome) string {
	switch {
	case o.Err != nil:
		return "error: " + o.Err.Error()
	case o.Explanation != "":
		return "explanation: " + o.Explanation
	}
	return ""
}

// ask passes a copy of the case to the allocator, and checks that it stays unmodified.
func (r *runner) ask(ctx context.Context, c *Case) (o Outcome, complaints []string) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	asked := c.DeepCopy()
	defer func() {
		// A panic in one scenario must not end the others.
		if crash := recover(); crash != nil {
			o.Err = fmt.Errorf("panic: %v\n%s", crash, debug.Stack())
			complaints = append(complaints, o.Err.Error())
		}
	}()
	o = r.allocator(ctx, asked)
	if !apiequality.Semantic.DeepEqual(asked, c) {
		complaints = append(complaints, "the allocator modified its input")
	}
	return o, complaints
}

func rewriting() bool {
	f := flag.Lookup("rewrite")
	return f != nil && f.Value.String() == "true"
}

// rewrite has datadriven write the answers into the files.
func (r *runner) rewrite(t *testing.T) {
	all := r.scenarios(t)
	files, err := filepath.Glob(filepath.Join(r.folder, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var explanation string
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "allocate":
				i := slices.IndexFunc(all, func(s Scenario) bool { return s.File == topic(file) && s.Name == d.CmdArgs[0].Key })
				var answer string
				answer, explanation = r.answer(t, &all[i])
				return answer
			case "explain":
				if explanation != "" {
					return explanation
				}
			}
			return d.Expected
		})
	}
}

func (r *runner) answer(t *testing.T, s *Scenario) (answer, explanation string) {
	outcome, complaints := r.ask(t.Context(), s.Case)
	for _, complaint := range complaints {
		t.Errorf("%s.txt:%d: %s", s.File, s.Line, complaint)
	}
	if s.Differs != "" && r.peer {
		return s.Expected, outcome.Explanation
	}
	return Render(s.Case, outcome), outcome.Explanation
}
