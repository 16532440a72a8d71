// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestAnotherConfig has schedulers beside one that has Dray.
func TestAnotherConfig(t *testing.T) {
	p := prepared(t, Options{Scheduler: Dray})
	if err := os.WriteFile(p.options.Binaries.SchedulerConfiguration, []byte(deployed), 0o600); err != nil {
		t.Fatal(err)
	}
	dray := map[string]any{"multiPoint": map[string]any{"enabled": []any{map[string]any{"name": "Dray"}}}}
	for name, test := range map[string]struct {
		options  AnotherOptions
		profile  map[string]any
		election map[string]any
	}{
		"dray with a lease": {
			AnotherOptions{Name: "one", Scheduler: Dray, Profile: "mine", Lease: "shared"},
			map[string]any{"schedulerName": "mine", "plugins": dray},
			map[string]any{
				"leaderElect": true, "resourceNamespace": "kube-system", "resourceName": "shared",
				"leaseDuration": "10m", "renewDeadline": "9m", "retryPeriod": "1s",
			},
		},
		"in tree without one": {
			AnotherOptions{Name: "two", Scheduler: InTree, Profile: "other"},
			map[string]any{"schedulerName": "other"},
			map[string]any{"leaderElect": false},
		},
	} {
		path, err := p.anotherConfig(test.options, "/kubeconfig")
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := yaml.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{test.profile}, config["profiles"]); diff != "" {
			t.Errorf("%s: profiles: %s", name, diff)
		}
		if diff := cmp.Diff(test.election, config["leaderElection"]); diff != "" {
			t.Errorf("%s: leader election: %s", name, diff)
		}
	}
}
