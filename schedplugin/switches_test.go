// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Devices are set aside, and freed by preemption, unless that is switched off. It can be
// switched on again.
func TestSwitches(t *testing.T) {
	file := filepath.Join(t.TempDir(), "switches.yaml")
	low := withPriority(podWith("low", "of-low"), 1)
	w := newWorld(t, setting{args: "switchesFile: " + file, objects: []runtime.Object{
		gpuClass(), gpus("a", 1), gpus("b", 1), gpuClaim("wanted", 1), gpuClaim("of-nominated", 1),
		reservedBy(held(gpuClaim("of-low", 1), "a", "gpu-0"), low),
	}})
	full := running(w, "a", low)
	empty := running(w, "b")
	nominated := nominatedTo(withPriority(podWith("nominated", "of-nominated"), 10), "b")
	for _, test := range []struct {
		text                 string
		setAside, preemption bool
	}{
		{"", true, true},
		{"setAside: false", false, true},
		{"preemption: false", true, false},
		{"preemption: false # and more\nsetAside: false", false, false},
		{"preemption: no such thing", false, false}, // stays as it was
		{"{}", true, true},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.plugin.preemption.Switches.Reread(klog.Background())
		a := w.attempt(withPriority(podWith("p", "wanted"), 5))
		expect(t, a.preFilter(), fwk.Success, "")
		state := a.state.Clone()
		expect(t, w.plugin.AddPod(w.ctx, state, a.pod, a.wrap(nominated), empty), fwk.Success, "")
		if free := w.plugin.Filter(w.ctx, state, a.pod, empty).IsSuccess(); free == test.setAside {
			t.Errorf("%q: the device of the nominated pod is free: %v", test.text, free)
		}
		evict := w.plugin.Filter(w.ctx, a.state, a.pod, full).Code() == fwk.Unschedulable
		state = a.state.Clone()
		expect(t, w.plugin.RemovePod(w.ctx, state, a.pod, a.wrap(low), full), fwk.Success, "")
		freed := w.plugin.Filter(w.ctx, state, a.pod, full).IsSuccess()
		if evict != test.preemption || freed != test.preemption {
			t.Errorf("%q: eviction helps: %v, frees: %v, want %v", test.text, evict, freed, test.preemption)
		}
	}
}
