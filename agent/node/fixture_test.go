// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

const nodeName = "virtual-1"

func TestMain(m *testing.M) { leakcheck.Main(m) }

// actions are the writes that a client made, as "patch nodes/status virtual-1".
func actions(client *fake.Clientset) []string {
	var out []string
	for _, action := range client.Actions() {
		resource := action.GetResource().Resource
		if action.GetSubresource() != "" {
			resource += "/" + action.GetSubresource()
		}
		name := ""
		switch a := action.(type) {
		case clienttesting.CreateAction: // and updates, which look alike
			name = nameOf(a.GetObject())
		case clienttesting.PatchAction:
			name = a.GetName()
		case clienttesting.DeleteAction:
			name = a.GetName()
		}
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			out = append(out, fmt.Sprintf("%s %s %s", verb, resource, name))
		}
	}
	return out
}

func nameOf(object runtime.Object) string {
	named, ok := object.(interface{ GetName() string })
	if !ok {
		return "?"
	}
	return named.GetName()
}

// count is how many actions of a client begin so.
func count(client *fake.Clientset, prefix string) int {
	return len(slices.DeleteFunc(actions(client), func(action string) bool { return !strings.HasPrefix(action, prefix) }))
}

// runner runs something that ends with a context.
type runner struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	err    error
}

// start runs in the background until stop, or until the test ends.
func start(t *testing.T, run func(context.Context) error) *runner {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner{cancel: cancel}
	r.group.Go(func() { r.err = run(ctx) })
	t.Cleanup(func() { _ = r.stop() })
	synctest.Wait()
	return r
}

func (r *runner) stop() error {
	r.cancel()
	r.group.Wait()
	return r.err
}

// wait waits for the end that nobody asks for.
func (r *runner) wait() error {
	r.group.Wait()
	return r.err
}

func condition(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

func sortedWords(words []string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}
