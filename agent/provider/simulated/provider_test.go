// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/simulated"
)

var (
	_ node.PodLifecycleHandler = (*simulated.Provider)(nil)
	_ node.PodNotifier         = (*simulated.Provider)(nil)
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func newPod(policy corev1.RestartPolicy, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid", Labels: map[string]string{"app": "job"}, Annotations: annotations},
		Spec:       corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "main", Image: "image"}, {Name: "side"}}},
	}
}

// recorder keeps what a provider reports, as "after phase, containers".
type recorder struct {
	began   time.Time
	reports []string
}

func (r *recorder) report(pod *corev1.Pod) {
	var states []string
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil:
			state := c.State.Waiting.Reason
			if ended := c.LastTerminationState.Terminated; ended != nil {
				state += fmt.Sprintf(" (%s) after exit %d of run %d", c.State.Waiting.Message, ended.ExitCode, c.RestartCount)
			}
			states = append(states, strings.ReplaceAll(state, "container="+c.Name, "container=X"))
		case c.State.Running != nil:
			states = append(states, fmt.Sprint("running ", c.RestartCount))
		case c.State.Terminated != nil:
			states = append(states, fmt.Sprint("exit ", c.State.Terminated.ExitCode))
		}
	}
	r.reports = append(r.reports, fmt.Sprintf("%s %s: %s", time.Since(r.began), pod.Status.Phase, strings.Join(slices.Compact(states), " ")))
}

func TestPods(t *testing.T) {
	script := &simulated.Script{Rules: []simulated.Rule{
		{Labels: map[string]string{"app": "other"}, RunFor: metav1.Duration{Duration: time.Hour}},
		{Labels: map[string]string{"app": "job"}, StartAfter: metav1.Duration{Duration: time.Second}, RunFor: metav1.Duration{Duration: time.Minute}, ExitCode: 3,
			EndAfter: metav1.Duration{Duration: 5 * time.Second}},
	}}
	for name, c := range map[string]struct {
		script      *simulated.Script
		policy      corev1.RestartPolicy
		annotations map[string]string
		delete      time.Duration // 0: not
		want        []string
	}{
		"no rule": {policy: corev1.RestartPolicyAlways, want: []string{"0s Running: running 0"}},
		"no rule, deleted": {policy: corev1.RestartPolicyAlways, delete: time.Minute,
			want: []string{"0s Running: running 0", "1m0s Succeeded: exit 0"}},
		"annotations": {policy: corev1.RestartPolicyNever, annotations: map[string]string{simulated.AnnotationStartAfter: "2s", simulated.AnnotationRunFor: "3s"},
			want: []string{"0s Pending: ContainerCreating", "2s Running: running 0", "5s Succeeded: exit 0"}},
		"fails": {policy: corev1.RestartPolicyNever, annotations: map[string]string{simulated.AnnotationRunFor: "3s", simulated.AnnotationExitCode: "7"},
			want: []string{"0s Running: running 0", "3s Failed: exit 7"}},
		"on failure, and succeeds": {policy: corev1.RestartPolicyOnFailure, annotations: map[string]string{simulated.AnnotationRunFor: "3s"},
			want: []string{"0s Running: running 0", "3s Succeeded: exit 0"}},
		"is restarted": {policy: corev1.RestartPolicyAlways, annotations: map[string]string{simulated.AnnotationRunFor: "50m"},
			want: []string{"0s Running: running 0", "50m0s Running: CrashLoopBackOff (back-off 10s restarting failed container=X pod=a_ns(uid)) after exit 0 of run 0", "50m10s Running: running 1"}},
		"script": {script: script, policy: corev1.RestartPolicyNever,
			want: []string{"0s Pending: ContainerCreating", "1s Running: running 0", "1m1s Failed: exit 3"}},
		"script, overridden": {script: script, policy: corev1.RestartPolicyNever, annotations: map[string]string{simulated.AnnotationExitCode: "0"},
			want: []string{"0s Pending: ContainerCreating", "1s Running: running 0", "1m1s Succeeded: exit 0"}},
		"script, deleted": {script: script, policy: corev1.RestartPolicyNever, delete: 30 * time.Second,
			want: []string{"0s Pending: ContainerCreating", "1s Running: running 0", "35s Succeeded: exit 0"}},
		"deleted after it ended": {script: script, policy: corev1.RestartPolicyNever, delete: 2 * time.Minute,
			want: []string{"0s Pending: ContainerCreating", "1s Running: running 0", "1m1s Failed: exit 3"}},
		"deleted before it began": {script: script, policy: corev1.RestartPolicyNever, delete: 500 * time.Millisecond,
			want: []string{"0s Pending: ContainerCreating", "5.5s Succeeded: exit 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := simulated.New(c.script)
				defer p.Close()
				r := &recorder{began: time.Now()}
				p.NotifyPods(t.Context(), r.report)
				pod := newPod(c.policy, c.annotations)
				if err := p.CreatePod(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
				if c.delete > 0 {
					time.Sleep(c.delete)
					if err := p.DeletePod(t.Context(), pod); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if !slices.Equal(r.reports, c.want) {
					t.Errorf("reports\n\t%s\nwant\n\t%s", strings.Join(r.reports, "\n\t"), strings.Join(c.want, "\n\t"))
				}
				if _, err := p.GetPod(t.Context(), "ns", "a"); errdefs.IsNotFound(err) != (c.delete > 0) {
					t.Errorf("GetPod: %v", err)
				}
			})
		})
	}
}

// TestSameNameAgain: a pod that takes the place of another one does not have its end.
func TestSameNameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simulated.New(nil)
		defer p.Close()
		r := &recorder{began: time.Now()}
		p.NotifyPods(t.Context(), r.report)
		for _, duration := range []string{"1m", "1h"} {
			if err := p.CreatePod(t.Context(), newPod(corev1.RestartPolicyNever, map[string]string{simulated.AnnotationRunFor: duration})); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if want := []string{"0s Running: running 0", "0s Running: running 0", "1h0m0s Succeeded: exit 0"}; !slices.Equal(r.reports, want) {
			t.Errorf("reports %q, want %q", r.reports, want)
		}
	})
}

// TestAdopt goes on with a pod that ran before, and counts its restarts on from the container that had most.
func TestAdopt(t *testing.T) {
	running := func(restarts int32) corev1.ContainerStatus {
		began := metav1.NewTime(time.Now().Add(-20 * time.Second))
		return corev1.ContainerStatus{RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}}
	}
	backingOff := func(restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
		}
	}
	for name, test := range map[string]struct {
		statuses func() []corev1.ContainerStatus
		restarts int
	}{
		"runs":                      {func() []corev1.ContainerStatus { return []corev1.ContainerStatus{running(7)} }, 7},
		"another backs off":         {func() []corev1.ContainerStatus { return []corev1.ContainerStatus{backingOff(8), running(7)} }, 9},
		"another backs off earlier": {func() []corev1.ContainerStatus { return []corev1.ContainerStatus{running(7), backingOff(2)} }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := simulated.New(nil)
				defer p.Close()
				r := &recorder{began: time.Now()}
				p.NotifyPods(t.Context(), r.report)
				pod := newPod(corev1.RestartPolicyAlways, map[string]string{simulated.AnnotationRunFor: "1m"})
				pod.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
				pod.Status.ContainerStatuses = test.statuses()
				begin, err := p.Adopt(pod)
				if err != nil {
					t.Fatal(err)
				}
				begin()
				time.Sleep(time.Minute)
				synctest.Wait()
				want := []string{
					fmt.Sprintf("40s Running: CrashLoopBackOff (back-off 10s restarting failed container=X pod=a_ns(uid)) after exit 0 of run %d", test.restarts),
					fmt.Sprintf("50s Running: running %d", test.restarts+1),
				}
				if !slices.Equal(r.reports, want) {
					t.Errorf("reports %q, want %q", r.reports, want)
				}
			})
		})
	}
}

func TestReady(t *testing.T) {
	p := simulated.New(nil)
	if err := p.CreatePod(t.Context(), newPod(corev1.RestartPolicyAlways, nil)); err != nil {
		t.Fatal(err)
	}
	status, err := p.GetPodStatus(t.Context(), "ns", "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			t.Errorf("%s is %s", condition.Type, condition.Status)
		}
	}
	if len(status.Conditions) != 5 || status.StartTime == nil || len(status.ContainerStatuses) != 2 || !status.ContainerStatuses[0].Ready {
		t.Errorf("status %v", status)
	}
}

func TestBadAnnotations(t *testing.T) {
	for annotation, text := range map[string]string{
		simulated.AnnotationRunFor: "long", simulated.AnnotationStartAfter: "-1s", simulated.AnnotationExitCode: "256", "another": "is fine",
	} {
		err := simulated.New(nil).CreatePod(t.Context(), newPod(corev1.RestartPolicyNever, map[string]string{annotation: text}))
		if errdefs.IsInvalidInput(err) != (annotation != "another") {
			t.Errorf("%s=%s: %v", annotation, text, err)
		}
	}
}

func TestUnknownPods(t *testing.T) {
	p := simulated.New(nil)
	pod := newPod(corev1.RestartPolicyNever, nil)
	for name, call := range map[string]func(context.Context, *corev1.Pod) error{"update": p.UpdatePod, "delete": p.DeletePod} {
		if err := call(t.Context(), pod); !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.GetPodStatus(t.Context(), "ns", "a"); !errdefs.IsNotFound(err) {
		t.Error(err)
	}
}

func TestUpdateKeepsTheStatus(t *testing.T) {
	p := simulated.New(nil)
	pod := newPod(corev1.RestartPolicyAlways, nil)
	if err := p.CreatePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	changed := newPod(corev1.RestartPolicyAlways, nil)
	changed.Labels["new"] = "label"
	if err := p.UpdatePod(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	pods, err := p.GetPods(t.Context())
	if err != nil || len(pods) != 1 || pods[0].Labels["new"] != "label" || pods[0].Status.Phase != corev1.PodRunning {
		t.Errorf("%v, %v", pods, err)
	}
}

func TestReadScript(t *testing.T) {
	for text, want := range map[string]string{
		"rules: [{labels: {a: b}, startAfter: 1s, runFor: 1m, exitCode: 1, endAfter: 2s}]": "",
		"rules: [{runFor: -1s}]":   "rules[0]: runFor: -1s: must not be negative",
		"rules: [{exitCode: 256}]": "rules[0]: exitCode: 256",
		"rules: [{unknown: 1}]":    "unknown field",
		"rules":                    "cannot unmarshal",
	} {
		path := filepath.Join(t.TempDir(), "script.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		script, err := simulated.ReadScript(path)
		switch {
		case want == "" && (err != nil || len(script.Rules) != 1 || script.Rules[0].RunFor.Duration != time.Minute):
			t.Errorf("%s: %v, %v", text, script, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := simulated.ReadScript(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error for a file that does not exist")
	}
}
