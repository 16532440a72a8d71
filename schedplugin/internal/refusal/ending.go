// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Endings remember how the last attempt of pods ended that found no node, which decides
// what may cure that. It is safe for concurrent use.
type Endings struct {
	mu   sync.Mutex
	last *lru.Cache // of Ending, by UID
	// helpedByUse are the pods whose last attempt left a node unjudged.
	helpedByUse map[types.UID]types.NamespacedName
}

// Ending is what stood in the way on some node.
type Ending struct {
	// DevicesSetAside: devices are set aside for a nominated pod.
	DevicesSetAside bool
	// SliceRemovalHelps: a slice or a device makes others unusable.
	SliceRemovalHelps bool
	// DeviceUseHelps: a device is an error for the pod, or a search was given up. Fewer devices may cure that.
	DeviceUseHelps bool
	// NodeResourceShort: a node does not have what devices take of it, such as CPU.
	NodeResourceShort bool
	// Undecided counts the attempts in a row in which a search was given up that matters.
	Undecided int
}

// unknownEnding is that anything may stand in the way. Unjudged lists only what is known.
var unknownEnding = Ending{DevicesSetAside: true, SliceRemovalHelps: true}

// NewEndings remembers the last 100,000 pods.
func NewEndings() *Endings {
	return &Endings{last: lru.New(maxPods), helpedByUse: make(map[types.UID]types.NamespacedName)}
}

// Of returns how the last attempt of a pod ended, and whether that is known. If not, anything may
// stand in the way.
func (a *Endings) Of(pod types.UID) (Ending, bool) {
	if known, found := a.last.Get(pod); found {
		return known.(Ending), true
	}
	return unknownEnding, false
}

// Undecided counts the attempts in a row in which a search was given up.
func (a *Endings) Undecided(pod types.UID) int {
	last, known := a.Of(pod)
	if !known {
		return 0
	}
	return last.Undecided
}

// Attempt is what is known of an attempt that found no node.
type Attempt struct {
	Refusals []*Refusal
	// GaveUp is set if a search was given up that matters.
	GaveUp bool
}

// End records how an attempt ended, and returns it.
func (a *Endings) End(pod *corev1.Pod, attempt Attempt) Ending {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := Ending{}
	for _, r := range attempt.Refusals {
		switch {
		case r.Reason == SetAside:
			last.DevicesSetAside = true
		case undecided(r):
		case strings.HasPrefix(r.Reason, Short):
			last.NodeResourceShort = true
		case r.Example == nil || r.Reason == Other || strings.Contains(r.Reason, unusablePrefix):
			last.SliceRemovalHelps = true
			last.DeviceUseHelps = last.DeviceUseHelps || r.Example == nil && r.Reason != Unexplained
		}
	}
	if attempt.GaveUp {
		last.Undecided, last.SliceRemovalHelps, last.DeviceUseHelps = a.Undecided(pod.UID)+1, true, true
	}
	a.last.Add(pod.UID, last)
	if delete(a.helpedByUse, pod.UID); last.DeviceUseHelps {
		a.helpedByUse[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
	return last
}

// PodsHelpedByUse lists the pods whose last attempt left a node unjudged. Those that do not wait any more are
// forgotten.
func (a *Endings) PodsHelpedByUse(waits func(types.NamespacedName, types.UID) bool) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []types.NamespacedName
	for uid, name := range a.helpedByUse {
		if waits(name, uid) {
			names = append(names, name)
		} else {
			delete(a.helpedByUse, uid)
		}
	}
	return names
}
