// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
)

// Why a pod, a node or an attempt is rejected is logged at level 5, and is the status in any case.
func TestStatusesAreLogged(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, test := range map[string]struct {
		status func(klog.Logger) *fwk.Status
		code   fwk.Code
		says   []string
	}{
		"unresolvable": {func(l klog.Logger) *fwk.Status { return unresolvable(l, "the reason", "key", "value") },
			fwk.UnschedulableAndUnresolvable, []string{"Pod cannot be scheduled", "key value", "the reason"}},
		"rejected": {func(l klog.Logger) *fwk.Status { return rejected(l, fwk.Unschedulable, "the reason") },
			fwk.Unschedulable, []string{"Pod cannot be scheduled", "the reason"}},
		"refused": {func(l klog.Logger) *fwk.Status {
			return refused(klog.NewContext(t.Context(), l), fwk.Unschedulable, "the reason", pod, node("a"))
		}, fwk.Unschedulable, []string{"Node does not suit pod", "ns/p", "the reason"}},
		"failed": {func(l klog.Logger) *fwk.Status { return failed(l, errors.New("the reason"), "key", "value") },
			fwk.Error, []string{"Scheduling failed", "the reason", "key value"}},
	} {
		for _, verbosity := range []int{4, 5} {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
			if status := test.status(logger); status.Code() != test.code || status.Message() != "the reason" {
				t.Errorf("%s: status %v", name, status)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().Data()
			if want := verbosity - 4; len(log) != want {
				t.Errorf("%s: %d lines at verbosity %d, want %d", name, len(log), verbosity, want)
				continue
			}
			for _, phrase := range test.says {
				if verbosity == 5 && !strings.Contains(fmt.Sprint(log[0]), phrase) {
					t.Errorf("%s: logged %v, which does not say %q", name, log[0], phrase)
				}
			}
		}
	}
}
