// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// NotLookedAt lists what kube-scheduler checks of pods and the simulation does not, for placed pods and
// others. With an option, such pods are refused.
func TestNotLookedAt(t *testing.T) {
	for _, none := range []*simulate.Shape{nil, {}} {
		if list := none.NotLookedAt(); len(list) > 0 {
			t.Errorf("%q of no pod", list)
		}
	}
	plain := func() *corev1.Pod { return gpuPods("one", 1)[0] }
	with := func(change func(*corev1.PodSpec)) *corev1.Pod {
		pod := plain()
		pod.Spec.Containers = []corev1.Container{{Name: "c"}}
		change(&pod.Spec)
		return pod
	}
	term := []corev1.PodAffinityTerm{{TopologyKey: "zone"}}
	for want, pod := range map[string]*corev1.Pod{
		"": plain(),
		"pod affinity": with(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
		}),
		"pod anti-affinity": with(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
		}),
		"topology spread constraints": with(func(s *corev1.PodSpec) { s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}} }),
		"host ports":                  with(func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }),
		"volumes": with(func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}),
		"scheduling gates":      with(func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }),
		"the scheduler another": with(func(s *corev1.PodSpec) { s.SchedulerName = "another" }),
	} {
		state := open(t, gpuCluster("a"), simulate.Options{})
		told := func(r simulate.Result, err error) {
			t.Helper()
			got := ""
			for _, n := range r.NotLookedAt {
				got += strings.Join(n.Aspects, ", ")
				if n.Pod != pod {
					t.Errorf("%s: told of pod %s", want, n.Pod.Name)
				}
			}
			if err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
		shape := shapeOf(t, state, []*corev1.Pod{pod})
		if got := strings.Join(shape.NotLookedAt(), ", "); got != want {
			t.Errorf("shape: got %q, want %q", got, want)
		}
		none := simulate.Nodes{}
		for _, on := range []simulate.Nodes{simulate.Real(nil), none} {
			told(state.Sim().Place(t.Context(), pod, on, simulate.FirstFit))
			told(state.Sim().PlaceMany(t.Context(), shape, 3, on, simulate.Pack))
			told(state.Sim().Gang(t.Context(), []simulate.Demand{{Shape: shape, Count: 2}, {Shape: shape, Count: 9}}, nil, on, simulate.FirstFit))
		}
		sim := state.Sim()
		place(t, sim, shape, 1, simulate.Real(nil))
		told(sim.Drain(t.Context(), none, simulate.FirstFit, "a"))
		strict := open(t, gpuCluster("a"), simulate.Options{RefuseNotLookedAt: true})
		_, err := strict.Shapes([]*corev1.Pod{pod})
		if wantErr := "pod default/one-0: it has " + want + ", which a simulation does not look at"; want == "" && err != nil || want != "" && (err == nil || err.Error() != wantErr) {
			t.Errorf("strict: %v", err)
		}
	}
	// Pods with and without are of different shapes.
	state := open(t, gpuCluster("a"), simulate.Options{})
	shapes, err := state.Shapes([]*corev1.Pod{plain(), with(func(s *corev1.PodSpec) { s.SchedulerName = "another" }), with(func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName })})
	if err != nil || len(shapes) != 2 || !slices.Equal(shapes[1].NotLookedAt(), []string{"the scheduler another"}) {
		t.Errorf("%d shapes, %v", len(shapes), err)
	}
}
