// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestLogFile finds the logs of a container that was started several times.
func TestLogFile(t *testing.T) {
	f := newFixture(t, nil)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, c := range map[string]struct {
		state, last corev1.ContainerState
		restarts    int32
		previous    bool
		want        string // a file, or a part of an error
	}{
		"runs":                      {running, corev1.ContainerState{}, 0, false, "0.log"},
		"runs again":                {running, ended, 2, false, "2.log"},
		"before it ran again":       {running, ended, 2, true, "1.log"},
		"did not run before":        {running, corev1.ContainerState{}, 0, true, `previous terminated container "main" in pod "a" not found`},
		"ended":                     {ended, ended, 2, false, "2.log"},
		"ended, and before":         {ended, ended, 2, true, "1.log"},
		"is to run again":           {waiting, ended, 0, false, "0.log"},
		"ran, and is to run again":  {waiting, ended, 2, true, "2.log"},
		"did not begin":             {waiting, corev1.ContainerState{}, 0, false, "is waiting to start: CrashLoopBackOff"},
		"did not begin, and before": {waiting, corev1.ContainerState{}, 0, true, `previous terminated container "main" in pod "a" not found`},
	} {
		pod := shell("", corev1.RestartPolicyAlways)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: c.state, LastTerminationState: c.last, RestartCount: c.restarts}}
		path, err := f.LogFile(pod, "main", c.previous)
		switch {
		case strings.HasSuffix(c.want, ".log"):
			if want := filepath.Join(f.logs, "ns_a_uid", "main", c.want); err != nil || path != want {
				t.Errorf("%s: got %s, %v; want %s", name, path, err, want)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, err := f.LogFile(shell("", corev1.RestartPolicyAlways), "main", false); err == nil {
		t.Error("a container without a status has a log")
	}
}

// TestLastLine is in the log also if the process did not end it, and stays without an end.
func TestLastLine(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.CreatePod(t.Context(), shell("printf 'no end'", corev1.RestartPolicyNever)); err != nil {
		t.Fatal(err)
	}
	f.await(t, "success", isPhase(corev1.PodSucceeded))
	f.awaitLog(t, "stdout P no end\n")
}

// TestLogsRotate: the output of a container takes at most so much of the disk.
func TestLogsRotate(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell("head -c 63000000 /dev/zero | tr '\\0' x; echo; echo last", corev1.RestartPolicyNever)
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.await(t, "success", isPhase(corev1.PodSucceeded))
	files, err := filepath.Glob(filepath.Join(f.logs, "ns_a_uid", "main", "*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || len(content) > 11<<20 {
			t.Errorf("%s has %d bytes, %v", file, len(content), err)
		}
		for line := range bytes.Lines(content) {
			if fields := strings.SplitN(string(line), " ", 4); len(fields) != 4 || fields[1] != "stdout" || fields[2] != "P" && fields[2] != "F" || len(line) > 17<<10 {
				t.Fatalf("%s has the line %.100q", file, line)
			}
		}
	}
	f.awaitLog(t, "stdout F last\n")
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.expectNothing(t)
}
