// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dray-project/dray/agent/kubeletapi"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// pods are one pod with a container and its log.
type pods struct{ log string }

func (*pods) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first"}}
	return pod
}

func (p *pods) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	if namespace != "ns" || name != "a" {
		return nil, errdefs.NotFound("no such pod")
	}
	return p.pod(), nil
}

func (p *pods) GetPods(context.Context) ([]*corev1.Pod, error) { return []*corev1.Pod{p.pod()}, nil }

func (p *pods) LogFile(_ *corev1.Pod, _ string, previous bool) (string, error) {
	if previous {
		return "", errors.New("there was no container before")
	}
	return p.log, nil
}

// reviews is an API server that answers reviews, and its address.
func reviews(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, review any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		review.Status.Authenticated = review.Spec.Token != "forged"
		review.Status.User.Username = review.Spec.Token
		answer(w, review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		asked := review.Spec.ResourceAttributes
		switch fmt.Sprintf("%s: %s %s/%s %s", review.Spec.User, asked.Verb, asked.Resource, asked.Subresource, asked.Name) {
		case "reader: get nodes/proxy node-1", "prober: get nodes/healthz node-1", "reader: create nodes/proxy node-1":
			review.Status.Allowed = true
		}
		answer(w, review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// serve serves a node whose API server knows the tokens reader, prober and stranger, and returns
// how to ask.
func serve(t *testing.T) func(method, token, path string) (int, string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: reviews(t), ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "0.log")
	lines := "2026-01-02T03:04:05.000000006Z stdout F one\n2026-01-02T03:04:06.000000006Z stderr F two\n2026-01-02T03:04:07.000000006Z stdout P thr\n2026-01-02T03:04:07.000000007Z stdout F ee\n"
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- kubeletapi.Serve(ctx, listener, kubeletapi.Options{NodeName: "node-1", Client: client, Pods: &pods{log}})
	}()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it signs its certificate itself
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(method, token, path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if refused := answer.StatusCode == http.StatusNotImplemented; answer.ProtoMajor == 1 && answer.Close != refused {
			t.Errorf("%s %s: the connection is closed: %v, want %v", method, path, answer.Close, refused)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

const logs = "/containerLogs/ns/a/main"

// TestRequests have who asks, for what, and the answer.
func TestRequests(t *testing.T) {
	ask := serve(t)
	for request, want := range map[string]struct {
		code int
		body string
	}{
		// Who may ask.
		"GET  " + logs:                 {401, "Unauthorized"},
		"GET forged " + logs:           {401, "Unauthorized"},
		"GET stranger " + logs:         {403, `user "stranger" may not get nodes/proxy node-1`},
		"GET prober " + logs:           {403, "Forbidden"},
		"GET  /healthz":                {401, "Unauthorized"},
		"GET prober /healthz":          {200, "ok"},
		"GET reader /healthz":          {200, "ok"},
		"GET stranger /pods":           {403, "may not get nodes/pods"},
		"GET prober /healthz/../pods":  {403, "Forbidden"},
		"GET  /nothing":                {401, "Unauthorized"},
		"POST prober /exec/ns/a/main":  {403, "may not create nodes/proxy"},
		"DELETE reader /pods":          {403, "may not delete nodes/pods"},
		"PROPFIND reader /exec/ns/a/b": {403, "Forbidden"},
		// Logs.
		"GET reader " + logs:                           {200, "one\ntwo\nthree\n"},
		"GET reader " + logs + "?tailLines=1":          {200, "ee\n"}, // parts of lines count, as with kubelet
		"GET reader " + logs + "?tailLines=0":          {200, ""},
		"GET reader " + logs + "?limitBytes=6":         {200, "one\ntw"},
		"GET reader " + logs + "?stream=Stderr":        {200, "two\n"},
		"GET reader " + logs + "?stream=Stdout":        {200, "one\nthree\n"},
		"GET reader " + logs + "?timestamps=true":      {200, "2026-01-02T03:04:05.000000006Z one\n"},
		"GET reader " + logs + "?sinceSeconds=1":       {200, ""},
		"GET reader " + logs + "?follow=true":          {200, "one\ntwo\nthree\n"},
		"GET reader " + logs + "?previous=true":        {400, "there was no container before"},
		"GET reader " + logs + "?tailLines=-1":         {422, "tailLines: -1: must not be negative"},
		"GET reader " + logs + "?tailLines=many":       {400, "query"},
		"GET reader " + logs + "?limitBytes=0":         {422, "limitBytes"},
		"GET reader " + logs + "?sinceSeconds=0":       {422, "sinceSeconds"},
		"GET reader " + logs + "?stream=Other":         {422, "stream"},
		"GET reader /containerLogs/ns/a/first":         {200, "one\ntwo\nthree\n"},
		"GET reader /containerLogs/ns/b/main":          {404, `pod "b" does not exist`},
		"GET reader /containerLogs/ns/a/other":         {404, `container "other" not found`},
		"GET reader /containerLogs/ns/a/..%2Fother":    {404, "not found"},
		"GET reader /containerLogs/ns/..%2F..%2Fetc/x": {404, "does not exist"},
		"GET reader /pods":                             {200, `"name":"a"`},
		"GET reader /nothing":                          {404, ""},
		"POST reader /exec/ns/a/main?command=id":       {501, "commands cannot be run in it"},
		"GET reader /exec/ns/a/main?command=id":        {501, "commands cannot be run in it"},
		"POST reader /run/ns/a/main?cmd=id":            {501, "commands cannot be run in it"},
		"POST reader /attach/ns/a/main":                {501, "it cannot be attached to"},
		"POST reader /portForward/ns/a":                {501, "no port of it is forwarded"},
	} {
		parts := strings.SplitN(request, " ", 3)
		code, body := ask(parts[0], parts[1], parts[2])
		exact := want.code == 200 && !strings.Contains(request, "timestamps") && !strings.HasSuffix(request, "/pods")
		if code != want.code || exact && body != want.body || !strings.Contains(body, want.body) {
			t.Errorf("%s: got %d %q, want %d %q", request, code, body, want.code, want.body)
		}
	}
}
