// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/cgroups"
)

// folder is a folder in the place of a group.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	cgroups.TestMode = true
	t.Cleanup(func() { cgroups.TestMode = false })
	path := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestLimits has what is written for limits, in the kernel's units.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		want   map[string]string
	}{
		{Limits{}, map[string]string{"cpu.max": "", "cpu.weight": "", "memory.max": "", "memory.oom.group": ""}},
		{Limits{CPU: 1500}, map[string]string{"cpu.max": "150000 100000", "memory.max": ""}},
		{Limits{CPU: 1}, map[string]string{"cpu.max": "1000 100000"}}, // the least that the kernel takes
		{Limits{CPURequest: 1000}, map[string]string{"cpu.weight": "100", "cpu.max": ""}},
		{Limits{CPURequest: 1}, map[string]string{"cpu.weight": "1"}},
		{Limits{Memory: 10 << 20}, map[string]string{"memory.max": "10485760", "memory.swap.max": "0", "memory.oom.group": "1"}},
	} {
		path := folder(t, map[string]string{"cgroup.controllers": "cpu memory"})
		if err := set(path, c.limits.resources()); err != nil {
			t.Fatal(err)
		}
		for file, want := range c.want {
			if got, _ := os.ReadFile(filepath.Join(path, file)); string(got) != want {
				t.Errorf("%+v: %s has %q, want %q", c.limits, file, got, want)
			}
		}
	}
}

// TestOOMKills reads what Linux 6.1 wrote of a group of which it ended two processes.
func TestOOMKills(t *testing.T) {
	recorded := "low 0\nhigh 0\nmax 57\noom 1\noom_kill 2\noom_group_kill 1\n"
	if kills, err := OOMKills(folder(t, map[string]string{"memory.events": recorded})); err != nil || kills != 2 {
		t.Errorf("got %d, %v", kills, err)
	}
	if kills, err := OOMKills(t.TempDir()); err != nil || kills != 0 {
		t.Errorf("a group without a limit: got %d, %v", kills, err)
	}
}

// TestCheck says the same as the machine's own file.
func TestCheck(t *testing.T) {
	given, err := os.ReadFile(Top + "/cgroup.controllers")
	for _, controller := range []string{CPU, Memory, "none"} {
		has := err == nil && strings.Contains(string(given), controller) && os.Geteuid() == 0
		switch refusal := Check(controller); {
		case has && refusal != nil:
			t.Errorf("%s: %v", controller, refusal)
		case !has && refusal == nil:
			t.Errorf("%s: is not refused", controller)
		case !has && err != nil && !strings.Contains(refusal.Error(), "is not cgroup v2"):
			t.Errorf("%s: refused because %v", controller, refusal)
		}
	}
}
