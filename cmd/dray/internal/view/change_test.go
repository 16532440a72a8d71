// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

func sourceOf(t *testing.T, files ...string) *Source {
	t.Helper()
	read := func(paths []string, text string) (*input.Objects, error) {
		return input.Read(paths, strings.NewReader(text), input.Options{})
	}
	s := &Source{Build: build, Read: func(text string) (*input.Objects, error) { return read([]string{input.Stdin}, text) }, Arguments: "-f cluster"}
	for i := range files {
		files[i] = filepath.Join("../../../../examples", files[i])
	}
	objects, err := read(files, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	return s
}

// Pictures are made, looked at, counted and changed at once by many.
func TestSourceAtOnce(t *testing.T) {
	s := sourceOf(t, "mig-partitions")
	objects := s.objects
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			events, _, _, end := s.follow()
			defer end()
			for range 5 {
				if err := s.Update(t.Context(), objects); err != nil {
					t.Error(err)
				}
				p := s.Picture()
				want := 0
				for i := range p.Pools {
					want += len(p.Pools[i].Devices)
				}
				if got := p.Usage(usage.ByClass).Total.Devices; got != want || want == 0 {
					t.Errorf("%d devices are counted, want %d", got, want)
				}
				outcome, err := s.WhatIf(t.Context(), &Change{Cordon: []string{"mig-1"}})
				if err != nil {
					t.Error(err)
					continue
				}
				if after := s.after(strconv.Itoa(outcome.Number)); after != nil && after.Usage(usage.ByDriver).Total.Free != 0 {
					t.Error("devices of a node that is cordoned are free")
				}
				s.SetLost("gone")
				s.SetLost("")
			}
			for len(events) > 0 {
				<-events
			}
		})
	}
	all.Wait()
}

// running is a pod with a claim that it alone uses, on a node of its own.
const running = `
apiVersion: v1
kind: Node
metadata: {name: extra}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: extra}
spec:
  driver: extra.example.com
  nodeName: extra
  pool: {name: extra, generation: 1, resourceSliceCount: 1}
  devices: [{name: d0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default, uid: c1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: none}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: extra.example.com, pool: extra, device: d0}]}}
  reservedFor: [{resource: pods, name: p, uid: p1}]
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, uid: p1}
spec: {nodeName: extra, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: c}]}
status: {phase: Running}
`

// A what-if says what changes, and changes nothing.
func TestWhatIf(t *testing.T) {
	s := sourceOf(t, "fleet-200")
	objects, err := s.Read(running)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Join(s.objects); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	untouched := asJSON(t, s.objects)
	for name, test := range map[string]struct {
		change  Change
		differs func(*Delta) bool
		command string
	}{
		"taint": {
			Change{Taint: &Taint{Taint: "a/b:NoSchedule", Driver: "extra.example.com", Device: "d0"}},
			func(d *Delta) bool {
				return len(d.Pools["extra.example.com/extra"].Devices[0].Taints) == 1 && len(d.Pools) == 1
			},
			"dray simulate what-if --taint a/b:NoSchedule --driver extra.example.com --device d0 -f cluster",
		},
		"cordon": {Change{Cordon: []string{"extra"}}, func(d *Delta) bool { return d.Nodes["extra"].Cordoned && len(d.Pools) == 0 }, "kubectl cordon extra"},
		"drain": {
			Change{Drain: []string{"extra"}},
			func(d *Delta) bool {
				return d.Pools["extra.example.com/extra"].Devices[0].State == Free && slices.ContainsFunc(*d.Waiting, func(w Waiting) bool { return w.Name == "p" && w.Answer >= 0 })
			},
			"dray simulate drain extra -f cluster",
		},
		"remove": {
			Change{Remove: []string{"default/p"}},
			func(d *Delta) bool {
				return d.Pools["extra.example.com/extra"].Devices[0].State == Free && d.Claims["default/c"] == nil
			},
			"kubectl delete pod p -n default",
		},
		"add": {
			Change{Add: map[string]int{"extra": 2}},
			func(d *Delta) bool { return len(d.Nodes) == 2 && len(d.Pools) == 2 },
			"dray simulate what-if --add extra=2 -f cluster",
		},
		"manifests": {
			Change{YAML: "apiVersion: v1\nkind: Node\nmetadata: {name: more}\n"},
			func(d *Delta) bool { return d.Nodes["more"] != nil },
			"dray allocate -f - -f cluster",
		},
	} {
		outcome, err := s.WhatIf(t.Context(), &test.change)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if outcome.Delta == nil || !test.differs(outcome.Delta) {
			t.Errorf("%s: unexpected difference %s", name, asJSON(t, outcome.Delta)[:600])
		}
		if !slices.Equal(outcome.Commands, []string{test.command}) {
			t.Errorf("%s: commands %q, want %q", name, outcome.Commands, test.command)
		}
		if s.after("no") != nil || s.after(string(mustJSON(t, outcome.Number))) == nil {
			t.Errorf("%s: outcome %d is not kept", name, outcome.Number)
		}
	}
	if asJSON(t, s.objects) != untouched {
		t.Error("a what-if has modified the objects")
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// A wrong what-if is an error with the reason.
func TestWrongWhatIf(t *testing.T) {
	s := sourceOf(t, "single-gpu")
	for want, change := range map[string]Change{
		"node no-such does not exist":                  {Cordon: []string{"no-such"}},
		"pod default/no-such does not exist":           {Remove: []string{"default/no-such"}},
		`taint: "x": want KEY[=VALUE]:EFFECT`:          {Taint: &Taint{Taint: "x", Driver: "d"}},
		"taint: say which devices":                     {Taint: &Taint{Taint: "a:NoSchedule"}},
		"taint: there is no such device":               {Taint: &Taint{Taint: "a:NoSchedule", Driver: "no-such"}},
		"taint: node no-such does not exist":           {Taint: &Taint{Taint: "a:NoSchedule", Node: "no-such"}},
		"add: node no-such does not exist":             {Add: map[string]int{"no-such": 1}},
		"add 1001 nodes like no-such: want 0 to 1000":  {Add: map[string]int{"no-such": 1001}},
		"add -1 nodes like no-such: want 0 to 1000":    {Add: map[string]int{"no-such": -1}},
		"stdin: no Kubernetes objects":                 {YAML: "\n"},
		"another object of that name was already read": {YAML: string(mustJSON(t, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": s.objects.Nodes[0].Name}}))},
	} {
		if _, err := s.WhatIf(t.Context(), &change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", change, err, want)
		}
	}
}

// Words of a command are quoted for a shell.
func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"": "''", "a-b/c=1:x": "a-b/c=1:x", "a b": "'a b'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`} {
		if got := shellWord(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}
