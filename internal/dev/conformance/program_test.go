// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/internal/dev/typed"
)

// mini is a program: one package passes, one has a failing test, one dies in a test, and one
// does not compile.
var mini = map[string]string{
	"go.mod":         "module example.com/mini\n\ngo 1.26\n",
	"ok/ok_test.go":  "package ok\n\nimport \"testing\"\n\nfunc TestGroup(t *testing.T) {\n\tt.Run(\"one\", func(*testing.T) {})\n\tt.Run(\"two\", func(t *testing.T) { t.Skip() })\n}\n",
	"die/d_test.go":  "package die\n\nimport \"testing\"\n\nfunc TestDies(*testing.T) { panic(\"oh\") }\n",
	"fail/f_test.go": "package fail\n\nimport \"testing\"\n\nfunc TestFails(t *testing.T) { t.Error(\"no\") }\n\nfunc TestPasses(*testing.T) {}\n",
	"wrong/w.go":     "package wrong\n\nvar x int = \"\"\n",
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func describe(outcomes []Outcome) string {
	var lines []string
	for _, o := range compareRuns(nil, outcomes) { // in the order of names
		lines = append(lines, fmt.Sprintf("%s: %s", o.Test, o.Status))
	}
	return strings.Join(lines, "\n")
}

func TestTestPackages(t *testing.T) {
	outcomes, err := testPackages(t.Context(), write(t, mini), []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	const want = `build wrong: fail
die.TestDies: fail
fail.TestFails: fail
fail.TestPasses: pass
ok.TestGroup/one: pass
ok.TestGroup/two: skip
test wrong: fail`
	if got := describe(outcomes); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestCompareRuns(t *testing.T) {
	asItIs := []Outcome{{"a", Passed, ""}, {"b", Failed, ""}, {"c", Passed, ""}, {"d", Failed, ""}, {"e", Failed, ""}}
	swapped := []Outcome{{"a", Failed, ""}, {"b", Failed, ""}, {"e", Passed, ""}, {"f", Failed, ""}}
	var lines []string
	for _, o := range compareRuns(asItIs, swapped) {
		lines = append(lines, fmt.Sprintf("%s: %s", o.Test, o.Status))
	}
	const want = "a: fail, b: fail without Dray, c: fail, e: pass, f: fail"
	if got := strings.Join(lines, ", "); got != want {
		t.Errorf("got %s", got)
	}
}

func TestChangeImports(t *testing.T) {
	imports := map[string]string{"a.example/x": "b.example/x"}
	folder := write(t, map[string]string{"m/m.go": "package m\n\nimport (\n\ty \"a.example/x\"\n\t\"a.example/x/below\"\n)\n"})
	if err := changeImports(folder, imports); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "m/m.go"))
	if err != nil || string(text) != "package m\n\nimport (\n\ty \"b.example/x\"\n\t\"a.example/x/below\"\n)\n" {
		t.Errorf("%v\n%s", err, text)
	}
	if err := changeImports(folder, imports); err == nil {
		t.Error("nothing was changed, and no error")
	}
}

func TestProgramWithoutCheckout(t *testing.T) {
	parts, err := Select([]string{"drivers"})
	if err != nil || len(parts) != 7 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for _, checkouts := range []Checkouts{nil, {"": t.TempDir()}, {"dra-example-driver": t.TempDir()}} {
		_, err = Run(t.Context(), parts[0], Options{Checkout: "../../..", Programs: checkouts})
		if err == nil || !strings.Contains(err.Error(), parts[0].Program.Repository) || !strings.Contains(err.Error(), parts[0].Program.Commit) {
			t.Errorf("%v: error: %v", checkouts, err)
		}
	}
}

// TestCheckouts: a checkout that is named counts before the folder of all.
func TestCheckouts(t *testing.T) {
	parts, err := Select([]string{"node/virtual-kubelet", "node/main", "drivers/dranet", "allocator"})
	if err != nil {
		t.Fatal(err)
	}
	folder := write(t, map[string]string{"all/dranet/go.mod": "", "vk/go.mod": ""})
	checkouts := make(Checkouts)
	for _, text := range []string{"", "virtual-kubelet=", "virtual-kubelet=" + folder + "/vk", folder + "/all"} {
		if err := checkouts.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"", folder + "/vk", folder + "/all/dranet", ""} {
		if got := checkouts.of(parts[i]); got != want {
			t.Errorf("%s: %s", parts[i].Name, got)
		}
		if err := parts[i].Lacks(checkouts); err != nil {
			t.Error(err)
		}
		if err := parts[i].Lacks(nil); (err == nil) != (want == "") {
			t.Errorf("%s without checkouts: %v", parts[i].Name, err)
		}
	}
	if err := checkouts.Set("kubernetes=" + folder); err == nil || !strings.Contains(err.Error(), `"kubernetes"`) {
		t.Errorf("error: %v", err)
	}
}

// TestBuildFailsTwice: cgo says twice of a package that it does not compile.
func TestBuildFailsTwice(t *testing.T) {
	fail := packageEvent{event: event{Action: "build-fail"}, ImportPath: "example.com/mini/c"}
	said := packageEvent{event: event{Action: "build-output", Output: "no header\n"}, ImportPath: "example.com/mini/c"}
	got := notBuilt("example.com/mini", []packageEvent{said, fail, said, fail})
	if len(got) != 1 || got[0] != (Outcome{"build c", Failed, "no header\nno header\n"}) {
		t.Errorf("%+v", got)
	}
}

// TestLayOutOlder needs no library of Kubernetes 1.37.
func TestLayOutOlder(t *testing.T) {
	folder := t.TempDir()
	if err := LayOutOlder(t.Context(), "../../..", folder); err != nil {
		t.Fatal(err)
	}
	// make agent-older builds it, which takes a minute where nothing was compiled before.
	if err := typed.Check(t.Context(), folder, "./..."); err != nil {
		t.Error(err)
	}
}

// TestForwarded replaces sources, and leaves tests out. Without Dray, only the tests are left out.
func TestForwarded(t *testing.T) {
	files := map[string]string{
		"node/node.go":   "package node\n",
		"node/a_test.go": "package node\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestA(*testing.T) {}\n\nfunc TestB(*testing.T) { os.Exit(1) }\n\nfunc helper() {}\n",
		"node/b_test.go": "package node\n",
	}
	f := forwarded{folder: "node", adapter: "nodeutil", LeftOut: map[string]map[string]string{
		"a_test.go": {"TestB": "why", "helper": "why"}, "b_test.go": {"": "why"},
	}}
	for swap, want := range map[bool][]string{true: {"a_test.go", "forward.go"}, false: {"a_test.go", "node.go"}} {
		folder := write(t, files)
		if err := f.layOut(folder, swap); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(folder, "node"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		text, err := os.ReadFile(filepath.Join(folder, "node/a_test.go"))
		if err != nil || !slices.Equal(names, want) || strings.Contains(string(text), "TestB") || strings.Contains(string(text), "helper") == swap {
			t.Errorf("swap %t: %v, %v\n%s", swap, names, err, text)
		}
	}
}

// TestLeftOutOfPrograms: the page says which tests of a program are not run, and why, but not what these call.
func TestLeftOutOfPrograms(t *testing.T) {
	part := Part{Name: "node/x", About: "it", Program: &Program{Forwarded: []forwarded{
		{folder: "node", LeftOut: map[string]map[string]string{"a_test.go": {"TestB": "of a private type", "helper": "no test"}, "b_test.go": {"": "of nothing"}}},
		{folder: "all"},
	}}}
	const want = "Left out of node:\n\n- `TestB`: of a private type\n- `node/b_test.go`: of nothing\n"
	if text := section(&Verdict{Result: &Result{Part: part}}); !strings.HasSuffix(text, want) {
		t.Errorf("the page has\n%s\nwant at its end\n%s", text, want)
	}
	part.Program.Forwarded = nil
	if text := section(&Verdict{Result: &Result{Part: part}}); strings.Contains(text, "Left out") {
		t.Errorf("nothing is left out, and the page has\n%s", text)
	}
}
