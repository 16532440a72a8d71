// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/effort"
)

// asker asks questions of crowds, and counts what they cost.
type asker struct {
	*crowd
	effort.Counts
	sim   *Sim
	state *State
}

// of asks one question.
func (a *asker) of(name string, call func(ctx context.Context) error) {
	a.Helper()
	a.Of(a.Context(), name, func(ctx context.Context) {
		if err := call(ctx); err != nil {
			a.Fatalf("%s: %v", name, err)
		}
	})
}

// shape is that of so many pods of a kind.
func (a *asker) shape(kind string, n int) *Shape {
	a.Helper()
	var pods []*corev1.Pod
	for range n {
		pods = append(pods, a.pod(kind))
	}
	shapes, err := a.state.Shapes(pods)
	if err != nil {
		a.Fatal(err)
	}
	return shapes[0]
}

// questions asks one of each kind, about a cluster in which something changed.
func (a *asker) questions(step int) {
	all, kinds := Real(nil), []string{"one", "two", "large", "cpu", "network", "all", "tolerant", "shared"}
	kind := kinds[step%len(kinds)]
	for i, policy := range []NodePolicy{FirstFit, Pack, Spread, Score(func(c NodeClass) float64 { return c.InUse })} {
		name := []string{"first fit", "pack", "spread", "score"}[i]
		a.of("place, "+name, func(ctx context.Context) error {
			_, err := a.sim.Place(ctx, a.pod(kind), all, policy)
			return err
		})
	}
	a.state = a.sim.State()
	a.of("fits", func(ctx context.Context) error {
		for _, kind := range kinds {
			if _, err := a.state.FitsMany(ctx, a.shape(kind, 1), all); err != nil {
				return err
			}
		}
		return nil
	})
	a.of("fits again", func(ctx context.Context) error { _, err := a.state.FitsMany(ctx, a.shape(kind, 1), all); return err })
	a.of("place many", func(ctx context.Context) error {
		_, err := a.state.Sim().PlaceMany(ctx, a.shape(kind, 9), 9, all, Pack)
		return err
	})
	a.of("gang", func(ctx context.Context) error {
		demands := []Demand{{Shape: a.shape("two", 2), Count: 2}, {Shape: a.shape(kind, 1), Count: 1}}
		topology := []Topology{{NodeLabel: "half"}}
		if step%2 == 0 {
			topology = []Topology{{DeviceAttribute: "gpu.example.com/size"}}
		}
		_, err := a.state.Sim().Gang(ctx, demands, topology, all, FirstFit)
		return err
	})
	a.of("drainable", func(ctx context.Context) error { _, err := a.state.Drainable(ctx, all, all, Pack); return err })
	a.of("victims", func(ctx context.Context) error {
		_, _, err := a.state.Victims(ctx, a.shape("two", 1), all, func(*corev1.Pod) float64 { return 1 }, 3)
		return err
	})
	a.of("why", func(ctx context.Context) error {
		sim := a.state.Sim()
		result, err := sim.PlaceMany(ctx, a.shape("two", 40), 40, all, FirstFit)
		if err == nil {
			_, err = result.Why(ctx)
		}
		return err
	})
}

// templates asks about nodes that are not there yet.
func (a *asker) templates() {
	var list []*Template
	for _, name := range []string{"node-0", "node-1", "node-2"} {
		template, err := a.state.TemplateOf(name, nil)
		if err != nil {
			a.Fatal(err)
		}
		list = append(list, template)
	}
	undecided, err := a.state.Any("any", list...)
	if err != nil {
		a.Fatal(err)
	}
	for _, kind := range []string{"one", "two", "large"} {
		a.of("new nodes", func(ctx context.Context) error {
			_, err := a.state.Sim().PlaceMany(ctx, a.shape(kind, 12), 12, New(list[0], 4), FirstFit)
			return err
		})
		a.of("undecided nodes", func(ctx context.Context) error {
			_, err := a.state.Sim().PlaceMany(ctx, a.shape(kind, 12), 12, New(undecided, 4), FirstFit)
			return err
		})
	}
}

// TestEffort has what questions about small clusters cost, as pods come and go.
func TestEffort(t *testing.T) {
	RunUsual(t)
	counts := make(effort.Counts)
	for seed := range uint64(12) {
		c := newCrowd(t, seed)
		if seed%3 == 0 {
			c.partition()
		}
		for i, node := range c.cluster.Nodes {
			node.Labels = map[string]string{"half": fmt.Sprint(i % 2)}
		}
		for _, slice := range c.cluster.Slices {
			for i := range slice.Spec.Devices {
				if slice.Spec.NodeName != nil && (int(seed)+i)%7 == 0 {
					slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "soft", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
				}
			}
		}
		a := &asker{crowd: c, Counts: counts, sim: c.open().Sim()}
		for step := range 16 {
			c.change(a.sim)
			a.questions(step)
		}
		a.templates()
	}
	counts.Compare(t)
}
