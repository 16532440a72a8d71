// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/simulate"
)

// choices is how many sets of victims of the first pod that has no place are tried.
const choices = 16

// quick looks for a first plan: where a wanted pod has no place, its cheapest victims move. Other sets than the cheapest are tried
// for the first of these pods.
func (f *finder) quick(ctx context.Context) error {
	for choice := range choices {
		set, more, err := f.victims(ctx, choice)
		if err != nil {
			return err
		}
		if set != nil && (!f.best.Possible || costOf(set) < f.best.Cost) {
			bound := f.best.Bound
			if _, err := f.attempt(ctx, set); err != nil {
				return err
			}
			f.best.Bound = bound // the set is looked at again in its turn
		}
		if !more {
			return nil
		}
	}
	return nil
}

func costOf(set []movable) (cost float64) {
	for i := range set {
		cost += set[i].cost
	}
	return cost
}

// victims are the pods that are in the way if each wanted pod takes the place that costs least. It is nil if there is no such
// place. More says that there may be another choice.
func (f *finder) victims(ctx context.Context, choice int) (set []movable, more bool, err error) {
	sim := f.state.Sim()
	gone := sets.New[*corev1.Pod]()
	mayGo := sets.New[*corev1.Pod]()
	for i := range f.pods {
		mayGo.Insert(f.pods[i].Pod)
	}
	cost := func(pod *corev1.Pod) float64 {
		if !mayGo.Has(pod) {
			return math.Inf(1)
		}
		return f.cost(pod)
	}
	for _, pod := range f.Wanted {
		result, err := sim.Place(ctx, pod, f.on, simulate.FirstFit)
		if err != nil || result.All() {
			if err != nil {
				return nil, false, err
			}
			continue
		}
		shapes, err := f.state.Shapes([]*corev1.Pod{pod})
		if err != nil {
			return nil, false, err
		}
		found, err := sim.State().Victims(ctx, shapes[0], f.on, cost, choice+1)
		if err != nil || len(found) <= choice {
			return nil, false, err
		}
		more = more || gone.Len() == 0 && choice+1 < choices
		victims := found[choice]
		choice = 0
		if err := sim.Evict(victims.Pods...); err != nil {
			return nil, false, err
		}
		gone.Insert(victims.Pods...)
		if _, err := sim.Put(ctx, pod, victims.Node); err != nil {
			return nil, false, err
		}
	}
	return slices.DeleteFunc(slices.Clone(f.pods), func(m movable) bool { return !gone.Has(m.Pod) }), more, nil
}
