// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/api"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// TestLogOptions has each parameter of a request for a log, at the least value that is valid.
func TestLogOptions(t *testing.T) {
	for text, want := range map[string]*corev1.PodLogOptions{
		"": {}, "tailLines=&sinceTime=&follow=&stream=": {}, "unknown=1&pretty=true": {},
		"tailLines=0": {TailLines: ptr.To[int64](0)}, "limitBytes=1": {LimitBytes: ptr.To[int64](1)}, "sinceSeconds=1": {SinceSeconds: ptr.To[int64](1)},
		"follow=true": {Follow: true}, "previous=1": {Previous: true}, "timestamps=T": {Timestamps: true}, "follow=false&previous=0": {},
		"sinceTime=2026-01-02T03:04:05Z": {SinceTime: ptr.To(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))},
		"stream=All":                     {Stream: ptr.To("All")}, "stream=Stdout": {Stream: ptr.To("Stdout")}, "stream=Stderr": {Stream: ptr.To("Stderr")},
		"tailLines=3&stream=All&limitBytes=9": {TailLines: ptr.To[int64](3), LimitBytes: ptr.To[int64](9), Stream: ptr.To("All")},
	} {
		query, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := api.ParseLogOptions(query)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v, want -, got +\n%s", text, err, diff)
		}
	}
}

// TestWrongLogOptions has what is said of parameters that cannot be read, and of values that are not valid.
func TestWrongLogOptions(t *testing.T) {
	for text, want := range map[string]string{
		"tailLines=x": "query: tailLines: ", "limitBytes=1.5": "query: limitBytes: ", "sinceSeconds=99999999999999999999": "query: sinceSeconds: ",
		"follow=maybe": "query: follow: ", "previous=2": "query: previous: ", "timestamps=yes": "query: timestamps: ", "sinceTime=yesterday": "query: sinceTime: ",
		"tailLines=-1": "tailLines: -1: must not be negative", "limitBytes=0": "limitBytes: 0: must be positive", "sinceSeconds=0": "sinceSeconds: 0: must be positive",
		"sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z": "sinceSeconds and sinceTime: at most one may be set",
		"stream=stdout":            `stream: "stdout": must be All, Stdout or Stderr`,
		"tailLines=1&stream=Stdin": `stream: "Stdin": must be All, Stdout or Stderr`,
	} {
		query, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		options, err := api.ParseLogOptions(query)
		if err == nil || !strings.HasPrefix(err.Error(), want) || options != nil {
			t.Errorf("%q: got %v, %v, want %q", text, options, err, want)
		} else if !errdefs.IsInvalidInput(err) {
			t.Errorf("%q: %v is not of the class InvalidInput", text, err)
		}
	}
}
