// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakeapi helps tests that have client-go's API server in memory.
package fakeapi

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// AwaitWatches waits until each list of a resource was followed by a watch, and fails the test after
// two minutes. The API server in memory tells no informer of what happens between its list and its
// watch, and an informer is synced after the list. Nobody else may have listed a resource.
func AwaitWatches(t testing.TB, client *fake.Clientset) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		missing := unwatched(client)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not watched yet: %v", missing)
		}
	}
}

// unwatched returns the resources that were listed more often than watched, sorted.
func unwatched(client *fake.Clientset) []string {
	lists := make(map[string]int) // without as many watches
	for _, action := range client.Actions() {
		switch action.GetVerb() {
		case "list":
			lists[action.GetResource().Resource]++
		case "watch":
			lists[action.GetResource().Resource]--
		}
	}
	maps.DeleteFunc(lists, func(_ string, n int) bool { return n <= 0 })
	return slices.Sorted(maps.Keys(lists))
}
