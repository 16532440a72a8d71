// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edit replaces a text that is once in a file below agent/.
type edit struct{ path, old, now string }

// fault is something wrong in what the ledger is, or is told.
type fault struct {
	name  string
	edits []edit
}

// faults are those that TestModel must find. Each was once in the code, or would be easy to make.
var faults = []fault{
	{"absent from kubelet is free", []edit{
		{"podresources/judge.go", `func (u Unexplained) Free(resource string) bool { return u.Why(resource) == "" }`, "func (u Unexplained) Free(resource string) bool { return true }"},
	}},
	{"no grace at all", []edit{
		{"devicetree/scanner.go", "return now.Sub(at) <= s.settling || !at.Before(asked)", "return at.IsZero()"},
	}},
	{"report older than allocation", []edit{
		{"devicetree/scanner.go", "return now.Sub(at) <= s.settling || !at.Before(asked)", "return now.Sub(at) <= s.settling && false || false && !at.Before(asked)"},
	}},
	{"grace in memory only: holds of others are old", []edit{
		{"devicetree/scanner.go", "last = sighting{hold.Serial, now}", "last = sighting{hold.Serial, now.Add(-time.Hour)}"},
	}},
	{"allocated again is not seen", []edit{
		{"devicetree/scanner.go", "if !known || last.serial != hold.Serial {", "if !known {"},
	}},
	{"device away loses its hold", []edit{
		{"devicetree/scanner.go", "return device != nil && report.Free(s.resource(device))", "return device == nil || report.Free(s.resource(device))"},
	}},
	{"served before the fronts are known", []edit{
		{"inventory/ledger.go", "if unknown := s.unknown(); len(unknown) > 0 {", "if unknown := s.unknown(); len(unknown) > 9 {"},
		{"nodedriver/served.go", `	d.pushState()
}

// serve runs`, `	d.pushState()
	d.closeRebuilt.Do(func() { close(d.rebuilt) })
}

// serve runs`},
	}},
	{"rebuilt with nothing for the plugin", []edit{
		{"nodedriver/rebuild.go", `		return d.plugin.Rebuild(devicetree.Report{Asked: view.report.Asked, InUse: view.report.InUse})`, `		_ = devicetree.Report{}
		return ledger.Rebuild(inventory.FrontDevicePlugin, nil)`},
	}},
	{"rebuilt from kubelet list only", []edit{
		{"nodedriver/rebuild.go", `		return d.plugin.Rebuild(devicetree.Report{Asked: view.report.Asked, InUse: view.report.InUse})`, `		_ = devicetree.Report{}
		return d.plugin.Rebuild(view.report)`},
	}},
	{"rebuilt without CDI files", []edit{
		{"draplugin/rebuild.go", `		if known[claim] {`, `		if true || known[claim] {`},
	}},
	{"rebuilt without claims", []edit{
		{"draplugin/rebuild.go", "result.Driver == driver && device != nil &&", "false && result.Driver == driver && device != nil &&"},
	}},
	{"another front is not in the way", []edit{
		{"inventory/hold.go", "case hold.Front != h.Front && h.excludes", "case false && hold.Front != h.Front && h.excludes"},
	}},
	{"the same front is not in the way", []edit{
		{"inventory/hold.go", "users >= max(shares, 1) && !has {", "users >= 9 && !has {"},
	}},
	{"counters do not exclude", []edit{
		{"inventory/hold.go", "return h.Device == other.Device || slices", `return h.Device == other.Device || h.User == "" && slices`},
	}},
	{"overwrites what others wrote", []edit{
		{"inventory/ledger.go", `	changed, err := l.read()
	defer func`, `	changed, err := false, error(nil)
	defer func`},
	}},
	{"rebuild replaces what is known", []edit{
		{"inventory/ledger.go", `		if slices.Contains(s.Known, front) {
			return nil
		}`, `		if false {
			return nil
		}`},
	}},
	{"answered before it is written", []edit{
		{"inventory/ledger.go", `	if err := l.store.Write(content); err != nil {`, `	defer func() { recover() }()
	if err := l.store.Write(content); err != nil {`},
	}},
	{"unprepare frees first", []edit{
		{"draplugin/prepare.go", `		err := p.files.Remove(string(claim.UID))
		if err == nil {
			err = p.options.Ledger.Release(inventory.FrontDRA, string(claim.UID))
		}`, `		err := p.options.Ledger.Release(inventory.FrontDRA, string(claim.UID))
		if err == nil {
			err = p.files.Remove(string(claim.UID))
		}`},
	}},
	{"prepared before the ledger", []edit{
		{"draplugin/prepare.go", `	if err := d.options.Ledger.Acquire(in, inventory.FrontDRA, string(claim.UID), d.exclusive(results)); err != nil {
		return nil, err
	}
`, `	defer func() { _ = d.options.Ledger.Acquire(in, inventory.FrontDRA, string(claim.UID), d.exclusive(results)) }()
`},
	}},
	{"pods deleted by force are gone", []edit{
		{"podresources/judge.go", `	j.remember(exist, out)
`, `	_ = exist
`},
	}},
	{"grace of deleted pods ignored", []edit{
		{"podresources/judge.go", "case now.Sub(pod.gone) > pod.grace+ending:", "case now.Sub(pod.gone) > 0:"},
	}},
	{"strangers ignored", []edit{
		{"podresources/judge.go", `		if reported.pods > started[name] {`, `		if false && reported.pods > started[name] {`},
	}},
	{"a kubelet without pods is believed", []edit{
		{"podresources/judge.go", "if pod.Status.StartTime != nil && answer.pods[name].pods == 0 {", "if false {"},
	}},
	{"assumed claims never end", []edit{
		{"draplugin/rebuild.go", "if hold.Front != inventory.FrontDRA || !hold.Assumed || still[use{hold.Device, hold.User}] ||", "if true || hold.Front != inventory.FrontDRA || !hold.Assumed || still[use{hold.Device, hold.User}] ||"},
	}},
	{"known claims end when deallocated", []edit{
		{"draplugin/rebuild.go", "if hold.Front != inventory.FrontDRA || !hold.Assumed || still[use{hold.Device, hold.User}] ||", "if hold.Front != inventory.FrontDRA || still[use{hold.Device, hold.User}] ||"},
	}},
	{"a claim with a file is assumed", []edit{
		{"draplugin/rebuild.go", "out[i].Assumed = err != nil", "out[i].Assumed = true || err != nil"},
	}},
	{"DP holds never end", []edit{
		{"devicetree/scanner.go", "return device != nil && report.Free(s.resource(device))", "return false && device != nil && report.Free(s.resource(device))"},
	}},
	{"pods wanting devices ignored without socket", []edit{
		{"nodedriver/rebuild.go", `pod != "" {`, `pod != "" && false {`},
	}},
}

// TestFaults plants each fault in a copy of its files and has TestModel find it, if LEDGER_FAULTS says in how
// many steps. Otherwise, it only looks whether there is something to replace.
func TestFaults(t *testing.T) {
	steps := os.Getenv("LEDGER_FAULTS")
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			overlay := fault.plant(t)
			if steps == "" {
				return
			}
			command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", "^TestModel$", "-count=1", "-timeout", "10m", ".")
			command.Env = append(command.Environ(), "MODEL_STEPS="+steps)
			output, err := command.CombinedOutput()
			if ended := new(exec.ExitError); !errors.As(err, &ended) || !strings.Contains(string(output), "--- FAIL: TestModel") {
				t.Fatalf("not found in %s steps: error %v\n%s", steps, err, output[max(0, len(output)-2000):])
			}
			seed, _, _ := strings.Cut(string(output[strings.Index(string(output), "seed "):]), ",")
			t.Log(seed)
		})
	}
}

// plant returns the path of what tells the go command to compile changed files.
func (f *fault) plant(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for _, e := range f.edits {
		path, err := filepath.Abs(filepath.Join("..", e.path))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if times := strings.Count(string(text), e.old); times != 1 {
			t.Fatalf("%s has %d times what is to be replaced, want 1:\n%s", e.path, times, e.old)
		}
		changed := filepath.Join(dir, strings.ReplaceAll(e.path, "/", "_"))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), e.old, e.now, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
