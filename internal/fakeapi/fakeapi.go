// Package fakeapi helps tests that have client-go's API server in memory.
package fakeapi

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
)

// AwaitWatches waits until all resources that were listed are watched, too, and fails the test after
// two minutes. The API server in memory tells no informer of what happens between its list and its
// watch, and an informer is synced after the list.
func AwaitWatches(t testing.TB, client *fake.Clientset) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		missing := unwatched(client)
		if missing.Len() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not watched yet: %v", sets.List(missing))
		}
	}
}

// unwatched returns the resources that were listed and are not watched.
func unwatched(client *fake.Clientset) sets.Set[string] {
	listed, watched := sets.New[string](), sets.New[string]()
	for _, action := range client.Actions() {
		switch action.GetVerb() {
		case "list":
			listed.Insert(action.GetResource().Resource)
		case "watch":
			watched.Insert(action.GetResource().Resource)
		}
	}
	return listed.Difference(watched)
}
