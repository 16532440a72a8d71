// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestUnwatched(t *testing.T) {
	client := fake.NewClientset()
	expect := func(want ...string) {
		t.Helper()
		if got := unwatched(client); !slices.Equal(got, want) {
			t.Errorf("%q are not watched, want %q", got, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect()
	_, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(err)
	_, err = client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(err)
	expect("nodes", "pods")
	_, err = client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	must(err)
	expect("pods")
	_, err = client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(err)
	_, err = client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	must(err)
	expect("pods") // the watch of one of two informers
	_, err = client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	must(err)
	expect()
	AwaitWatches(t, client)
}
