// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/provider/internal/podstatus"
)

// supervised is a pod with an init container, a sidecar and a container, of which nothing runs.
func supervised(t *testing.T, policy corev1.RestartPolicy) *running {
	t.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:  policy,
		InitContainers: []corev1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		Containers:     []corev1.Container{{Name: "main", Image: "image"}},
	}}
	return &running{
		folder: t.TempDir(), ending: make(chan struct{}), sooner: make(chan struct{}),
		plan: &Plan{Pod: pod, Inits: []Container{{Name: "setup"}, {Name: "proxy"}}, Containers: []Container{{Name: "main"}}},
	}
}

func stored(t *testing.T, r *running) State {
	t.Helper()
	state, err := checkpoint.Read[State](filepath.Join(r.folder, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestFirstState has what is stored of a pod before any container runs.
func TestFirstState(t *testing.T) {
	r := supervised(t, corev1.RestartPolicyAlways)
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	state := stored(t, r)
	waiting := func(name, image string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: image, Started: ptr.To(false), State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	}
	want := State{Inits: []corev1.ContainerStatus{waiting("setup", ""), waiting("proxy", "")}, Containers: []corev1.ContainerStatus{waiting("main", "image")}}
	if diff := cmp.Diff(want, state, cmpopts.IgnoreFields(State{}, "Began")); diff != "" || state.Began.IsZero() {
		t.Errorf("began %v; want -, got +\n%s", state.Began, diff)
	}
	var members []string
	for _, m := range r.members {
		members = append(members, fmt.Sprintf("%s init=%v sidecar=%v ended with the pod=%v", m.field, m.init, m.isSidecar(), m.stop == r.ending))
	}
	wantMembers := []string{
		"spec.initContainers{setup} init=true sidecar=false ended with the pod=false",
		"spec.initContainers{proxy} init=true sidecar=true ended with the pod=false",
		"spec.containers{main} init=false sidecar=false ended with the pod=true",
	}
	if diff := cmp.Diff(wantMembers, members); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// TestStateOfAnEarlierSupervisor has what a supervisor makes of a pod whose supervisor was killed.
func TestStateOfAnEarlierSupervisor(t *testing.T) {
	terminated := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "X"}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	before := terminated(7)
	for name, c := range map[string]struct {
		policy corev1.RestartPolicy
		of     int // index of the member: the init container, the sidecar or the container
		last   corev1.ContainerState
		over   bool
		// restarts counts those that are reported, which are 3 until it starts again. lastCode is the exit code of the last termination.
		restarts, lastCode int32
	}{
		"a container that ran is restarted":               {corev1.RestartPolicyAlways, 2, runs, false, 3, 137},
		"a container that ran was killed for good":        {corev1.RestartPolicyNever, 2, runs, true, 3, 7},
		"a container that ran failed":                     {corev1.RestartPolicyOnFailure, 2, runs, false, 3, 137},
		"a container that failed is restarted":            {corev1.RestartPolicyOnFailure, 2, terminated(2), false, 3, 2},
		"a container that completed is not":               {corev1.RestartPolicyOnFailure, 2, terminated(0), true, 3, 7},
		"a container that completed is, as it always was": {corev1.RestartPolicyAlways, 2, terminated(0), false, 3, 0},
		"a container waits for its restart":               {corev1.RestartPolicyAlways, 2, waits, false, 3, 7},
		"a container waits for its only start":            {corev1.RestartPolicyNever, 2, waits, false, 3, 7},
		"an init container runs again, as all before it":  {corev1.RestartPolicyNever, 0, terminated(0), false, 3, 0},
		"an init container that ran":                      {corev1.RestartPolicyNever, 0, runs, false, 3, 137},
		"a sidecar that ran":                              {corev1.RestartPolicyNever, 1, runs, false, 3, 137},
	} {
		r := supervised(t, c.policy)
		earlier := State{
			Began: metav1.NewTime(time.Unix(1000, 0)), Supervisors: 2, Events: []Event{{Number: 5, Message: "old"}},
			Inits: []corev1.ContainerStatus{{State: waits}, {State: waits}}, Containers: []corev1.ContainerStatus{{State: waits}},
		}
		last := corev1.ContainerStatus{Name: "x", RestartCount: 3, State: c.last, LastTerminationState: before}
		if c.of < 2 {
			earlier.Inits[c.of] = last
		} else {
			earlier.Containers[0] = last
		}
		if err := checkpoint.Write(filepath.Join(r.folder, stateFile), earlier); err != nil {
			t.Fatal(err)
		}
		if err := r.begin(); err != nil {
			t.Fatal(err)
		}
		state, m := stored(t, r), r.members[c.of]
		if !state.Began.Equal(&earlier.Began) || state.Supervisors != 3 || len(state.Events) != 1 || state.Over {
			t.Errorf("%s: got %+v", name, state)
		}
		if m.over != c.over || (m.status.State.Terminated != nil) != c.over || m.status.RestartCount != c.restarts ||
			m.status.LastTerminationState.Terminated == nil || m.status.LastTerminationState.Terminated.ExitCode != c.lastCode {
			t.Errorf("%s: over %v, got %+v", name, m.over, m.status)
		}
		if next := podstatus.NextRestarts(m.status); next != 4 {
			t.Errorf("%s: its next start is restart %d", name, next)
		}
	}
}

// TestRestartsOfContainers has which containers are restarted after success and after a failure.
func TestRestartsOfContainers(t *testing.T) {
	for policy, want := range map[corev1.RestartPolicy]string{
		corev1.RestartPolicyAlways:    "setup 0 false, setup 1 true, proxy 0 true, proxy 1 true, main 0 true, main 1 true",
		corev1.RestartPolicyOnFailure: "setup 0 false, setup 1 true, proxy 0 true, proxy 1 true, main 0 false, main 1 true",
		corev1.RestartPolicyNever:     "setup 0 false, setup 1 false, proxy 0 true, proxy 1 true, main 0 false, main 1 false",
	} {
		r := supervised(t, policy)
		if err := r.begin(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range r.members {
			for _, code := range []int32{0, 1} {
				got = append(got, fmt.Sprintf("%s %d %v", m.Name, code, m.restarts(r.plan.Pod, code)))
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: want -, got +\n%s", policy, diff)
		}
	}
}

// TestEvents has the latest events, numbered, in what is stored.
func TestEvents(t *testing.T) {
	r := supervised(t, corev1.RestartPolicyAlways)
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	for i := range maxEvents + 2 {
		r.event(r.members[2], corev1.EventTypeWarning, "Reason", fmt.Sprint("message ", i))
	}
	events := stored(t, r).Events
	if len(events) != maxEvents {
		t.Fatalf("%d events, want %d", len(events), maxEvents)
	}
	for i, event := range events {
		want := Event{Number: int64(i + 3), Field: "spec.containers{main}", Type: "Warning", Reason: "Reason", Message: fmt.Sprint("message ", i+2)}
		if diff := cmp.Diff(want, event); diff != "" {
			t.Errorf("event %d: want -, got +\n%s", i, diff)
		}
	}
}

// TestEndOfAFailedProbe has the event of a container that is ended, and how long it may take to end.
func TestEndOfAFailedProbe(t *testing.T) {
	for name, c := range map[string]struct {
		policy  corev1.RestartPolicy
		of      int
		kind    string
		own     *int64 // the grace period of the probe
		pod     *int64 // the grace period of the pod
		grace   time.Duration
		message string
	}{
		"restarted":                {corev1.RestartPolicyAlways, 2, liveness, nil, nil, 30 * time.Second, "Container main failed liveness probe, will be restarted"},
		"restarted after failures": {corev1.RestartPolicyOnFailure, 2, startup, nil, ptr.To[int64](7), 7 * time.Second, "Container main failed startup probe, will be restarted"},
		"not restarted":            {corev1.RestartPolicyNever, 2, liveness, ptr.To[int64](3), ptr.To[int64](7), 3 * time.Second, "Container main failed liveness probe"},
		"a sidecar":                {corev1.RestartPolicyNever, 1, startup, nil, nil, 30 * time.Second, "Container proxy failed startup probe, will be restarted"},
	} {
		r := supervised(t, c.policy)
		r.plan.Pod.Spec.TerminationGracePeriodSeconds = c.pod
		if err := r.begin(); err != nil {
			t.Fatal(err)
		}
		p := &probing{running: r, member: r.members[c.of], failed: make(chan time.Duration, 1)}
		p.end(c.kind, &corev1.Probe{TerminationGracePeriodSeconds: c.own})
		p.end(c.kind, &corev1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](99)}) // The first probe that fails decides.
		if grace := <-p.failed; grace != c.grace {
			t.Errorf("%s: %s, want %s", name, grace, c.grace)
		}
		events := stored(t, r).Events
		want := Event{Number: 1, Field: r.members[c.of].field, Type: "Normal", Reason: "Killing", Message: c.message}
		if diff := cmp.Diff(want, events[0]); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
		close(r.ending)
		p.end(c.kind, &corev1.Probe{})
		if len(p.failed) > 0 || len(stored(t, r).Events) != len(events) {
			t.Errorf("%s: a probe ends the container of a pod that ends", name)
		}
	}
}

// TestReadEnding has the deadline of a pod that ends, which may be moved.
func TestReadEnding(t *testing.T) {
	r := supervised(t, corev1.RestartPolicyAlways)
	tell := func(content any) error {
		if err := checkpoint.Write(filepath.Join(r.folder, endingFile), content); err != nil {
			t.Fatal(err)
		}
		return r.readEnding()
	}
	if err := r.readEnding(); err != nil || r.isEnding() {
		t.Errorf("nobody has told it to end: %v", err)
	}
	if err := tell(ending{}); err != nil || r.isEnding() {
		t.Errorf("there is no deadline: %v", err)
	}
	first := time.Unix(5000, 0)
	for i, deadline := range []time.Time{first, first, first.Add(-time.Second)} {
		before := r.sooner
		if err := tell(ending{deadline}); err != nil || !r.isEnding() || !r.deadline.Equal(deadline) {
			t.Errorf("%d: %v, deadline %v", i, err, r.deadline)
		}
		if told := isClosed(before); told != (i != 1) {
			t.Errorf("%d: those who wait are told %v", i, told)
		}
	}
	if err := os.WriteFile(filepath.Join(r.folder, endingFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.readEnding(); err == nil {
		t.Error("a damaged file is read")
	}
}

func TestPorts(t *testing.T) {
	container := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}, {Name: "81", ContainerPort: 9090}, {ContainerPort: 7}}}
	for _, c := range []struct {
		port intstr.IntOrString
		want int
	}{
		{intstr.FromInt32(1), 1}, {intstr.FromInt32(65535), 65535}, {intstr.FromInt32(65536), 0}, {intstr.FromInt32(0), 0}, {intstr.FromInt32(-1), 0}, {intstr.FromInt32(81), 81},
		{intstr.FromString("web"), 8080}, {intstr.FromString("81"), 9090}, {intstr.FromString("82"), 82}, {intstr.FromString("none"), 0}, {intstr.FromString("65536"), 0},
	} {
		if got, err := portOf(c.port, container); got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("port %s: got %d, %v, want %d", c.port.String(), got, err, c.want)
		}
	}
}

func TestReasonsOfAnInitThatEnds(t *testing.T) {
	for want, got := range map[string]error{
		"no such program": orEnded("no such program", nil),
		"the init of the container ended before its command ran": orEnded("", io.EOF),
		"the init of the container: broken":                      orEnded("", errors.New("broken")),
	} {
		if got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := bounded(strings.Repeat("x", maxMessage+1)); len(got) != maxMessage {
		t.Errorf("a message of %d bytes", len(got))
	}
	if got := bounded("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}
