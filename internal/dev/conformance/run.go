// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Outcome is how one test of the counterpart ended. Tests that only group others have none.
type Outcome struct {
	Test   string // path of names, as go test prints it
	Status Status
	Output string // what it printed
}

// Status is how a test ended.
type Status string

// What go test says of a test.
const (
	Passed  Status = "pass"
	Skipped Status = "skip"
	Failed  Status = "fail"
	// FailedWithout is a failure that Dray has no part in.
	FailedWithout Status = "fail without Dray"
)

// refusedByBoth is what an adapter prints if Dray and the counterpart refuse the same
// question. Where the test fails nevertheless, it compares texts.
const refusedByBoth = "CONFORMANCE refused by both:"

// inOtherWords is what an adapter prints that has a test expect a text of Dray's instead of
// that of the counterpart. The test passes if nothing else differs.
const inOtherWords = "CONFORMANCE in other words:"

// Result is a run of a part.
type Result struct {
	Part     Part
	Version  string
	Outcomes []Outcome // by name
}

// Options say where things are, and what of a part is run.
type Options struct {
	// Checkout is the root of Dray's sources.
	Checkout string
	// Programs are the checkouts of programs of others.
	Programs Checkouts
	// Progress gets a line for each test that ended, of the parts that run packages twice, and of programs
	// on a control plane. Nil for none. Two goroutines write.
	Progress io.Writer
}

// Run lays a part out in a temporary folder and runs it there. What does not compile, or ends
// without a result of each test, is an error; of a program it is an outcome.
func Run(ctx context.Context, part Part, options Options) (*Result, error) {
	if options.Progress == nil {
		options.Progress = io.Discard
	}
	if part.own != nil {
		result, err := part.own.run(ctx, part, options.Checkout)
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", part.Name, err)
		}
		return result, nil
	}
	folder, err := os.MkdirTemp("", "dray-conformance-"+path.Base(part.Name)+"-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if part.Program != nil {
		result, err := runProgram(ctx, part, folder, options)
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", part.Name, err)
		}
		return result, nil
	}
	if err := layOut(ctx, part, options.Checkout, folder); err != nil {
		return nil, fmt.Errorf("part %s: %w", part.Name, err)
	}
	version, err := version(ctx, part, folder)
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", part.Name, err)
	}
	run := testAll
	switch {
	case part.names != nil:
		run = part.names.compare
	case part.twice != nil:
		run = func(ctx context.Context, folder string) ([]Outcome, error) {
			return runTwice(ctx, part, folder, options)
		}
	}
	outcomes, err := run(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", part.Name, err)
	}
	return &Result{Part: part, Version: version, Outcomes: outcomes}, nil
}

// testAll runs the tests of a part that was laid out.
func testAll(ctx context.Context, folder string) ([]Outcome, error) {
	return test(ctx, folder, nil, "-mod=mod", "-vet=off", "-count=1", "-json", "./...")
}

// test runs go test with more environment than this process has.
func test(ctx context.Context, folder string, environment []string, arguments ...string) ([]Outcome, error) {
	var stdout, stderr bytes.Buffer
	run := exec.CommandContext(ctx, "go", append([]string{"test"}, arguments...)...)
	run.Dir, run.Stdout, run.Stderr = folder, &stdout, &stderr
	run.Env = append(run.Environ(), environment...)
	err := run.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if ctx.Err() != nil { // what was printed until then says nothing
		return nil, ctx.Err()
	}
	printed := stdout.String()
	outcomes, readErr := readOutcomes(&stdout)
	switch {
	case readErr != nil:
		return nil, readErr
	case len(outcomes) == 0:
		return nil, fmt.Errorf("no test ran: go test: %w\n%s%s", err, stderr.String(), printed)
	case err != nil && !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Status == Failed }):
		return nil, fmt.Errorf("no test failed, but go test did: %w\n%s", err, stderr.String())
	}
	return outcomes, nil
}

// event is a line of go test -json.
type event struct {
	Action  string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// readOutcomes reads what go test -json prints. A test that began and did not end is an
// error: the binary died in it.
func readOutcomes(from io.Reader) ([]Outcome, error) {
	output := make(map[string]*strings.Builder)
	ended := make(map[string]Status)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Test == "" {
			continue // what the build prints, and the package's own result
		}
		if output[e.Test] == nil {
			output[e.Test] = new(strings.Builder)
		}
		switch status := Status(e.Action); status {
		case "output":
			output[e.Test].WriteString(e.Output)
		case Passed, Skipped, Failed:
			ended[e.Test] = status
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	var outcomes []Outcome
	for test, printed := range output {
		status, has := ended[test]
		if !has {
			return nil, fmt.Errorf("%s did not end:\n%s", test, printed.String())
		}
		if !isGroup(test, output) {
			outcomes = append(outcomes, Outcome{Test: test, Status: status, Output: printed.String()})
		}
	}
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Test, b.Test) })
	return outcomes, nil
}

func isGroup(test string, all map[string]*strings.Builder) bool {
	for other := range all {
		if strings.HasPrefix(other, test+"/") {
			return true
		}
	}
	return false
}
