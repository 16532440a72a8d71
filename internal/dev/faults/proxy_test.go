// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// behind starts a server that counts deletions, and a client that reaches it by a proxy.
func behind(t *testing.T) (*Proxy, kubernetes.Interface, *atomic.Int32) {
	t.Helper()
	var deletions atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deletions.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
	}))
	t.Cleanup(server.Close)
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := Start(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, serving)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy, kubernetes.NewForConfigOrDie(&rest.Config{Host: proxy.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: certificate}}), &deletions
}

// remove deletes the pod named pod.
func remove(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	return client.CoreV1().Pods("ns").Delete(t.Context(), "pod", metav1.DeleteOptions{})
}

func TestProxyPasses(t *testing.T) {
	proxy, client, deletions := behind(t)
	proxy.Inject(Fault{Methods: []string{http.MethodPut}, Path: regexp.MustCompile("pod"), Times: 1, Status: http.StatusConflict})
	proxy.Inject(Fault{Path: regexp.MustCompile("/pods/other$"), Times: 1, Status: http.StatusConflict})
	if err := remove(t, client); err != nil || deletions.Load() != 1 {
		t.Errorf("%d deletions, %v", deletions.Load(), err)
	}
	if spoilt := proxy.Heal(); spoilt != 0 {
		t.Errorf("%d requests spoilt", spoilt)
	}
}

func TestProxyAnswers(t *testing.T) {
	for status, is := range map[int]func(error) bool{
		http.StatusConflict:            apierrors.IsConflict,
		http.StatusInternalServerError: apierrors.IsInternalError,
		http.StatusServiceUnavailable:  apierrors.IsServiceUnavailable,
	} {
		proxy, client, deletions := behind(t)
		proxy.Inject(Fault{Path: regexp.MustCompile("/pods/pod$"), Times: 1, Status: status})
		if err := remove(t, client); !is(err) || deletions.Load() != 0 {
			t.Errorf("status %d: %d deletions, %v", status, deletions.Load(), err)
		}
		if err := remove(t, client); err != nil {
			t.Errorf("status %d: the second time: %v", status, err)
		}
		if before, spoilt, after := proxy.Spoilt(), proxy.Heal(), proxy.Spoilt(); before != 1 || spoilt != 1 || after != 0 {
			t.Errorf("status %d: %d requests spoilt, %d when it is healed, %d after that", status, before, spoilt, after)
		}
	}
}

func TestProxyLosesAnswers(t *testing.T) {
	proxy, client, deletions := behind(t)
	proxy.Inject(Fault{Methods: []string{http.MethodDelete}, Path: regexp.MustCompile("/pods/pod$"), Times: 2})
	if err := remove(t, client); err == nil || deletions.Load() != 1 {
		t.Errorf("%d deletions, %v", deletions.Load(), err)
	}
	if spoilt := proxy.Heal(); spoilt != 1 {
		t.Errorf("%d requests spoilt", spoilt)
	}
	if err := remove(t, client); err != nil || deletions.Load() != 2 {
		t.Errorf("healed: %d deletions, %v", deletions.Load(), err)
	}
}

func TestProxyHolds(t *testing.T) {
	proxy, client, deletions := behind(t)
	hold := proxy.Hold(Fault{Methods: []string{http.MethodDelete}, Path: regexp.MustCompile("/pods/pod$")})
	done := make(chan error)
	go func() { done <- client.CoreV1().Pods("ns").Delete(t.Context(), "pod", metav1.DeleteOptions{}) }()
	<-hold.Arrived()
	if deletions.Load() != 0 {
		t.Error("the request was not held back")
	}
	if err := remove(t, client); err != nil || deletions.Load() != 1 {
		t.Errorf("while one is held: %d deletions, %v", deletions.Load(), err)
	}
	hold.Release()
	hold.Release()
	if err := <-done; err != nil || deletions.Load() != 2 {
		t.Errorf("released: %d deletions, %v", deletions.Load(), err)
	}
}

// A request whose client is gone does not get through.
func TestProxyForgets(t *testing.T) {
	proxy, client, deletions := behind(t)
	hold := proxy.Hold(Fault{Path: regexp.MustCompile("/pods/pod$")})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- client.CoreV1().Pods("ns").Delete(ctx, "pod", metav1.DeleteOptions{}) }()
	<-hold.Arrived()
	cancel()
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
	if err := proxy.Close(); err != nil || deletions.Load() != 0 {
		t.Errorf("%d deletions, %v", deletions.Load(), err)
	}
}
