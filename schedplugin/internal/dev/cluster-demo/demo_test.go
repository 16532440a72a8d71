// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestManifests shows that each act has pods, and that each manifest is used.
func TestManifests(t *testing.T) {
	files, err := manifests.ReadDir("manifests")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{setting: true}
	for _, act := range acts {
		used[act.manifest] = true
		objects, err := read(act.manifest)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, ok := objects[len(objects)-1].(*corev1.Pod); !ok {
			t.Errorf("%s does not end with a pod", act.manifest)
		}
	}
	if _, err := read(setting); err != nil {
		t.Error(err)
	}
	for _, file := range files {
		if !used[file.Name()] {
			t.Errorf("no act uses %s", file.Name())
		}
	}
}

func TestFleet(t *testing.T) {
	devices := 0
	for _, number := range []int{1, firstMIG, h200Node} {
		for _, slice := range published("node", number) {
			devices += len(slice.Spec.Devices)
		}
	}
	// Whole, in two halves, in four quarters: seven devices a partitionable GPU.
	if want := gpusPerNode * (1 + 7 + 1); devices != want {
		t.Errorf("%d devices, want %d", devices, want)
	}
}

func TestBoard(t *testing.T) {
	var out bytes.Buffer
	b := newBoard(&out)
	b.title("A title")
	b.row("trainer", "gpu-01", []string{"gpu-0", "gpu-1"}, 12*time.Millisecond)
	b.row("urgent", "gpu-20", []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7"}, 1234*time.Millisecond)
	b.note("One thing to note, which is a little longer than a line of the table can possibly be:\n- this one")
	want := `
  POD                  NODE     DEVICES                                            AFTER

A title
  trainer              gpu-01   gpu-0 gpu-1                                        12 ms
  urgent               gpu-20   gpu-0 gpu-1 gpu-2 gpu-3 gpu-4 gpu-5 gpu-6        1234 ms
                                gpu-7
    One thing to note, which is a little longer than a line of the table can possibly
    be:
    - this one
`
	if got := out.String(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}
