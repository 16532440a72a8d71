package gang

import (
	"maps"
	"slices"
)

// turnBack places one pod after the other and turns back: to a later node and, before that, to other alternatives of the
// pods before. It is for devices that several nodes can reach, where the pods of one node are no problem by
// themselves, and for admin access, which keeps nothing from other pods. It does not turn back to other devices.
func (a *asker) turnBack() ([]Place, error) {
	t := &turning{asker: a, places: a.unplaced(), best: a.unplaced()}
	for i := range a.Pods {
		t.choices = append(t.choices, a.choices([]int{i}))
	}
	w := &walk{asker: a, state: a.State, on: make([][]int, len(a.Nodes)), reach: make(map[claimKey]*selector)}
	_, err := t.pod(0, w, 0)
	return t.best, err
}

type turning struct {
	*asker
	choices [][]choice
	places  []Place
	best    []Place
	most    int
}

// pod places the pods from the given one on. It is true if as many as are needed have a place.
func (t *turning) pod(i int, w *walk, placed int) (bool, error) {
	if placed > t.most {
		t.most, t.best = placed, slices.Clone(t.places)
	}
	if i == len(t.Pods) || t.exhausted() || placed+len(t.Pods)-i < t.Min {
		return placed >= t.Min, nil
	}
	for _, chosen := range t.choices[i] {
		for n := range t.Nodes {
			v := t.variant(i, n)
			if v < 0 || !t.Room(n, append(slices.Clip(w.on[n]), i)) {
				continue
			}
			next := &walk{asker: t.asker, state: w.state, on: slices.Clone(w.on), reach: maps.Clone(w.reach)}
			next.on[n] = slices.Clip(next.on[n])
			claims, fits, err := next.placeClaims(i, n, "", t.Pods[i].Variants[v], chosen)
			if err != nil {
				return false, err
			}
			if !fits {
				continue
			}
			t.places[i] = Place{Node: n, Claims: claims}
			if done, err := t.pod(i+1, next, placed+1); done || err != nil {
				return done, err
			}
		}
	}
	t.places[i] = Place{Node: -1}
	return t.pod(i+1, w, placed)
}
