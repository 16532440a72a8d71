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

// Endings remembers why the last attempt of each pod found no node. Queueing hints use it. It is safe for
// concurrent use.
type Endings struct {
	mu   sync.Mutex
	last *lru.Cache // of Ending, by UID
	// helpedByUse are the pods with DeviceUseHelps.
	helpedByUse map[types.UID]types.NamespacedName
}

// Ending says what kept a pod from some node in its last attempt.
type Ending struct {
	// DevicesSetAside: devices are set aside for a nominated pod.
	DevicesSetAside bool
	// SliceRemovalHelps: a slice or a device makes others unusable, so that removing a slice may help.
	SliceRemovalHelps bool
	// DeviceUseHelps: evaluating a device failed, a search was given up, or LowerInFlight. If another pod takes devices, that may help.
	DeviceUseHelps bool
	// LowerInFlight: a pod of lower priority had devices that were only reserved. The pod may preempt it once it is bound.
	LowerInFlight bool
	// NodeResourceShort: a node has too little of a resource that devices take, such as CPU.
	NodeResourceShort bool
	// Undecided counts the consecutive attempts with a search that was given up, and that decided the result.
	Undecided int
}

// unknownEnding stands for a pod that is not known: all may help. DeviceUseHelps is not set, as PodsHelpedByUse lists known pods only.
var unknownEnding = Ending{DevicesSetAside: true, SliceRemovalHelps: true}

// NewEndings returns an empty Endings for the last 100,000 pods.
func NewEndings() *Endings {
	return &Endings{last: lru.New(maxPods), helpedByUse: make(map[types.UID]types.NamespacedName)}
}

// Of returns the ending of a pod's last attempt. If it is not known, it returns false, and an Ending with
// which all may help.
func (a *Endings) Of(pod types.UID) (Ending, bool) {
	if known, found := a.last.Get(pod); found {
		return known.(Ending), true
	}
	return unknownEnding, false
}

// Undecided counts the consecutive attempts with a search that was given up.
func (a *Endings) Undecided(pod types.UID) int {
	last, known := a.Of(pod)
	if !known {
		return 0
	}
	return last.Undecided
}

// Attempt is the result of an attempt that found no node.
type Attempt struct {
	Refusals []*Refusal
	// GaveUp is set if a search was given up whose answer could have found a node.
	GaveUp bool
	// LowerInFlight is that of the Ending.
	LowerInFlight bool
}

// End records the ending of an attempt, and returns it.
func (a *Endings) End(pod *corev1.Pod, attempt Attempt) Ending {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := Ending{LowerInFlight: attempt.LowerInFlight, DeviceUseHelps: attempt.LowerInFlight}
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

// PodsHelpedByUse lists the pods with DeviceUseHelps. It drops those for which waits is false.
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
