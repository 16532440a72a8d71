// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestStatusLeavesOthersAlone changes what the provider says and what others wrote, in
// turns.
func TestStatusLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &provider{}
		running := start(t, newController(t, p, client).Run)

		theirs := getNode(t, client)
		theirs.Labels["theirs"] = "label"
		theirs.Annotations["theirs"] = "annotation"
		theirs.Status.Conditions = append(theirs.Status.Conditions, corev1.NodeCondition{Type: "Theirs", Status: corev1.ConditionTrue})
		if _, err := client.CoreV1().Nodes().Update(t.Context(), theirs, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		ours := virtualNode()
		ours.Labels = map[string]string{"new": "label"}
		ours.Annotations = nil
		ours.Status.Conditions = []corev1.NodeCondition{{Type: "Ours", Status: corev1.ConditionFalse}}
		ours.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "a"}}
		p.notify(ours)
		synctest.Wait()
		expectNode(t, client, "new=label theirs=label", "Ours Theirs", 1, "theirs")

		// A controller that starts anew knows what the one before it wrote.
		if err := running.stop(); err != nil {
			t.Fatal(err)
		}
		start(t, newController(t, p, client).Run)
		expectNode(t, client, "theirs=label type=virtual", "Ready Theirs", 0, "note theirs")
	})
}

func expectNode(t *testing.T, client *fake.Clientset, labels, conditions string, addresses int, annotations string) {
	t.Helper()
	stored := getNode(t, client)
	var got []string
	for _, c := range stored.Status.Conditions {
		got = append(got, string(c.Type))
	}
	if sortedWords(got) != conditions {
		t.Errorf("conditions %v, want %s", got, conditions)
	}
	var pairs, notes []string
	for name, value := range stored.Labels {
		pairs = append(pairs, name+"="+value)
	}
	if sortedWords(pairs) != labels {
		t.Errorf("labels %v, want %s", pairs, labels)
	}
	for name := range stored.Annotations {
		if !strings.HasPrefix(name, "virtual-kubelet.io/") {
			notes = append(notes, name)
		}
	}
	if sortedWords(notes) != annotations {
		t.Errorf("annotations %v, want %s", notes, annotations)
	}
	if len(stored.Status.Addresses) != addresses {
		t.Errorf("addresses %v, want %d", stored.Status.Addresses, addresses)
	}
}

func TestDamagedRecordRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &provider{}
		start(t, newController(t, p, client).Run)
		damaged := getNode(t, client)
		damaged.Annotations["virtual-kubelet.io/last-applied-node-status"] = "{"
		damaged.Annotations["virtual-kubelet.io/last-applied-object-meta"] = "[]"
		if _, err := client.CoreV1().Nodes().Update(t.Context(), damaged, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		ours := virtualNode()
		ours.Labels = map[string]string{"new": "label"}
		p.notify(ours)
		synctest.Wait()
		expectNode(t, client, "new=label type=virtual", "Ready", 0, "note")
	})
}

// TestHalfARecordRemovesNothing has records that name what others wrote, and are damaged
// after that.
func TestHalfARecordRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &provider{}
		start(t, newController(t, p, client).Run)
		damaged := getNode(t, client)
		damaged.Labels["theirs"] = "label"
		damaged.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
		damaged.Annotations["virtual-kubelet.io/last-applied-node-status"] = `{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"conditions":7}`
		damaged.Annotations["virtual-kubelet.io/last-applied-object-meta"] = `{"labels":{"theirs":"label"},"annotations":7}`
		if _, err := client.CoreV1().Nodes().Update(t.Context(), damaged, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		ours := virtualNode()
		ours.Status.Addresses = nil
		p.notify(ours)
		synctest.Wait()
		stored := getNode(t, client)
		if stored.Labels["theirs"] != "label" || len(stored.Status.Addresses) != 1 {
			t.Errorf("labels %v, addresses %v", stored.Labels, stored.Status.Addresses)
		}
	})
}

// TestRecordsDoNotNest has a provider that passes on the node as it is stored, with the records in it.
func TestRecordsDoNotNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		p := &provider{}
		start(t, newController(t, p, client).Run)
		first := getNode(t, client)
		for range 3 {
			p.notify(getNode(t, client))
			synctest.Wait()
		}
		for _, record := range []string{"virtual-kubelet.io/last-applied-node-status", "virtual-kubelet.io/last-applied-object-meta"} {
			before, after := first.Annotations[record], getNode(t, client).Annotations[record]
			if before == "" || strings.Contains(after, "last-applied") || len(after) > 2*len(before) {
				t.Errorf("%s has %d bytes, then %d: %s", record, len(before), len(after), after)
			}
		}
	})
}
