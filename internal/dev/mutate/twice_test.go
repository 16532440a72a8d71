// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A test that fails without the mutant too catches nothing, nor does one that fails with it only once.
func TestCaughtTwice(t *testing.T) {
	for name, tt := range map[string]struct{ fails, want string }{
		"fails with the mutant":     {"Answer() != 1", "1 of 1 mutants caught"},
		"fails once":                {"run == 2", "0 of 1 mutants caught"},
		"fails by itself from then": {"run >= 2", "0 of 1 mutants caught"},
		"fails at times":            {"run % 2 == 0", "1 of 1 mutants caught"}, // This cannot be told from a mutant.
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, map[string]string{
				"program.go": "package program\n\nfunc Answer() int {\n\treturn 1\n}\n",
				"runs":       "",
				"program_test.go": `package program

import (
	"os"
	"testing"
)

func TestAnswer(t *testing.T) {
	runs, err := os.ReadFile("runs")
	if err != nil {
		t.Fatal(err)
	}
	run := len(runs) + 1
	if err := os.WriteFile("runs", append(runs, '.'), 0o644); err != nil {
		t.Fatal(err)
	}
	if Answer(); ` + tt.fails + ` {
		t.Fatal(run)
	}
}
`,
			})
			if out := mutate(t, "-C", dir, "-n", "1", "."); !strings.Contains(out, tt.want) {
				t.Errorf("%s, not %s", out, tt.want)
			}
		})
	}
}

// Tests that do not start here are left out, and those of other packages are run.
func TestTestsThatDoNotStart(t *testing.T) {
	dir := module(t, map[string]string{
		"program.go":      "package program\n\nfunc Answer() int {\n\treturn 1\n}\n",
		"program_test.go": "package program\n\nimport \"testing\"\n\nfunc TestAnswer(t *testing.T) {\n\tif Answer() != 1 {\n\t\tt.Fatal()\n\t}\n}\n",
	})
	if err := os.Mkdir(filepath.Join(dir, "e2e"), 0o755); err != nil {
		t.Fatal(err)
	}
	const lacking = "package e2e\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n\tprintln(\"no cluster\")\n\tos.Exit(1)\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "e2e", "e2e_test.go"), []byte(lacking), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, log strings.Builder
	err := run(t.Context(), []string{"-C", dir, "-n", "1", "-tests", "./e2e .", "."}, &out, &log)
	if err != nil || !strings.Contains(out.String(), "1 of 1 mutants caught") || !strings.Contains(log.String(), "program/e2e: its tests are not used") || !strings.Contains(log.String(), "no cluster") {
		t.Errorf("%v: %s, %s", err, out.String(), log.String())
	}
}

// asProgram is the variable of the environment that makes a test program this program.
const asProgram = "MUTATE_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A run that is told to end leaves nothing in the folder for temporary files, be it by an interrupt or by a supervisor.
func TestTerminated(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := module(t, map[string]string{
				"program.go":      "package program\n\nfunc Answer() int {\n\treturn 1\n}\n",
				"program_test.go": "package program\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestAnswer(t *testing.T) {\n\t_ = os.WriteFile(\"started\", nil, 0o644)\n\ttime.Sleep(time.Minute)\n\tAnswer()\n}\n",
			})
			temporary := t.TempDir()
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "-C", dir, "-n", "1", ".")
			cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temporary)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for tries := 0; ; tries++ {
				if _, err := os.Stat(filepath.Join(dir, "started")); err == nil || tries == 2400 {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "canceled") {
				t.Errorf("ended with %v: %s", err, out.String())
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
