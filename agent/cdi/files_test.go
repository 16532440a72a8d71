// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func open(t *testing.T, dir, owner string) *Files {
	t.Helper()
	files, err := Open(dir, owner)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func spec(path string) *cdispec.Spec {
	return &cdispec.Spec{
		Kind: "example.com/gpu",
		Devices: []cdispec.Device{{
			Name:           "gpu-0",
			ContainerEdits: cdispec.ContainerEdits{DeviceNodes: []*cdispec.DeviceNode{{Path: path}}},
		}},
	}
}

func write(t *testing.T, files *Files, key string, spec *cdispec.Spec) {
	t.Helper()
	if err := files.Write(key, spec); err != nil {
		t.Fatal(err)
	}
}

// nodes are the device nodes that a runtime finds for a CDI device.
func nodes(t *testing.T, dir, device string) []string {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Refresh(); err != nil {
		t.Fatal(err)
	}
	found := cache.GetDevice(device)
	if found == nil {
		return nil
	}
	var paths []string
	for _, node := range found.ContainerEdits.DeviceNodes {
		paths = append(paths, node.Path)
	}
	return paths
}

func TestRuntimesFindWhatWasWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "cdi")
	files := open(t, dir, "example.com")
	for _, path := range []string{"/dev/gpu0", "/dev/gpu0-renamed"} {
		write(t, files, "gpu-0", spec(path))
		if got := nodes(t, dir, "example.com/gpu=gpu-0"); !slices.Equal(got, []string{path}) {
			t.Errorf("after writing %s a runtime finds %v", path, got)
		}
	}
	if err := files.Remove("gpu-0"); err != nil {
		t.Fatal(err)
	}
	if got := nodes(t, dir, "example.com/gpu=gpu-0"); got != nil {
		t.Errorf("after removal a runtime finds %v", got)
	}
	if err := files.Remove("gpu-0"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestEqualContentIsNotWrittenAgain(t *testing.T) {
	files := open(t, t.TempDir(), "example.com")
	write(t, files, "gpu-0", spec("/dev/gpu0"))
	before, err := os.Stat(files.Path("gpu-0"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, files, "gpu-0", spec("/dev/gpu0"))
	if after, err := os.Stat(files.Path("gpu-0")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced by an equal one (%v)", err)
	}
	write(t, files, "gpu-0", spec("/dev/gpu1"))
	if after, err := os.Stat(files.Path("gpu-0")); err != nil || os.SameFile(before, after) {
		t.Errorf("the file was changed in place (%v)", err)
	}
}

func TestDamageIsRepaired(t *testing.T) {
	dir := t.TempDir()
	files := open(t, dir, "example.com")
	write(t, files, "gpu-0", spec("/dev/gpu0"))
	if err := os.WriteFile(files.Path("gpu-0"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, files, "gpu-0", spec("/dev/gpu0"))
	if got := nodes(t, dir, "example.com/gpu=gpu-0"); !slices.Equal(got, []string{"/dev/gpu0"}) {
		t.Errorf("a runtime finds %v", got)
	}
}

// A reader at any moment sees a complete file.
func TestWritesAreAtomic(t *testing.T) {
	files := open(t, t.TempDir(), "example.com")
	short, long := spec("/dev/gpu0"), spec("/dev/"+strings.Repeat("long", 50_000))
	write(t, files, "gpu-0", short)

	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 200 {
			if err := files.Write("gpu-0", []*cdispec.Spec{long, short}[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	done := make(chan struct{})
	go func() { writer.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		if _, err := cdi.ReadSpec(files.Path("gpu-0"), 0); err != nil {
			t.Fatalf("a reader finds a broken file: %v", err)
		}
	}
}

func TestInvalidSpecsAreRefusedByName(t *testing.T) {
	dir := t.TempDir()
	files := open(t, dir, "example.com")
	for name, change := range map[string]func(*cdispec.Spec){
		"kind without a class":      func(s *cdispec.Spec) { s.Kind = "example.com" },
		"no devices":                func(s *cdispec.Spec) { s.Devices = nil },
		"unknown version":           func(s *cdispec.Spec) { s.Version = "99.0.0" },
		"node without a path":       func(s *cdispec.Spec) { s.Devices[0].ContainerEdits.DeviceNodes[0].Path = "" },
		"version below what it has": func(s *cdispec.Spec) { s.Version = "0.5.0"; s.Annotations = map[string]string{"a.b/c": "d"} },
	} {
		t.Run(name, func(t *testing.T) {
			bad := spec("/dev/gpu0")
			change(bad)
			err := files.Write("claim-1", bad)
			if err == nil || !strings.Contains(err.Error(), "CDI file of claim-1") {
				t.Errorf("error %v does not name the file", err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 0 {
				t.Errorf("%s was left behind", entries[0].Name())
			}
		})
	}
	if _, err := Open(dir, ""); err == nil {
		t.Error("an owner without a name was accepted")
	}
}

func TestVersionIsTheLowestThatDoes(t *testing.T) {
	files := open(t, t.TempDir(), "example.com")
	annotated := spec("/dev/gpu0")
	annotated.Annotations = map[string]string{"a.b/c": "d"}
	for want, given := range map[string]*cdispec.Spec{"0.3.0": spec("/dev/gpu0"), "0.6.0": annotated} {
		write(t, files, "gpu-0", given)
		written, err := cdi.ReadSpec(files.Path("gpu-0"), 0)
		if err != nil || written.Version != want {
			t.Errorf("version %v, want %s (%v)", written, want, err)
		}
		if given.Version != "" {
			t.Error("the caller's spec was modified")
		}
	}
}

func TestOwnersDoNotSeeEachOther(t *testing.T) {
	dir := t.TempDir()
	keys := []string{"a/b=c", "d_e", "%5F", "ü", "-"}
	owner, other := open(t, dir, "x"), open(t, dir, "x_a")
	for _, key := range keys {
		write(t, owner, key, spec("/dev/gpu0"))
		write(t, other, key, spec("/dev/gpu1"))
	}
	for _, name := range []string{"x_incomplete.tmp", "x_%zz.json", "x.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keys)
	for name, files := range map[string]*Files{"x": owner, "x_a": other, "x again": open(t, dir, "x")} {
		got, err := files.Keys()
		slices.Sort(got)
		if err != nil || !slices.Equal(got, keys) {
			t.Errorf("%s has %q, want %q (%v)", name, got, keys, err)
		}
	}
	if got, err := open(t, filepath.Join(dir, "missing"), "x").Keys(); got != nil || err != nil {
		t.Errorf("a missing directory has %v (%v)", got, err)
	}
}
