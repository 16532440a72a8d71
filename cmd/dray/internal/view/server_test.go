// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A page that has gone is told nothing any more.
func TestEventsEnd(t *testing.T) {
	source := sourceOf(t, "single-gpu")
	address, token := servingOf(t, source, Listen{Address: "127.0.0.1:0"})
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/events?revision=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(&http.Cookie{Name: "dray-view-" + port, Value: token})
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	readers := func() int {
		source.lock.Lock()
		defer source.lock.Unlock()
		return len(source.readers)
	}
	if n := readers(); n != 1 {
		t.Errorf("%d readers, want 1", n)
	}
	leave()
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); readers() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("who has gone is still told what changes")
		}
	}
}

// A page with the current picture is not told to read it again. A page with another one is.
func TestWholePicture(t *testing.T) {
	source := sourceOf(t, "single-gpu")
	address, token := servingOf(t, source, Listen{Address: "127.0.0.1:0"})
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	_, _, revision, end := source.follow()
	end()
	for given, whole := range map[int64]bool{revision: false, revision + 1: true} {
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(address, "/api/events?revision=", given), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.AddCookie(&http.Cookie{Name: "dray-view-" + port, Value: token})
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		marker := fmt.Sprint("lost for ", given)
		source.SetLost(marker)
		told := ""
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			told += lines.Text() + "\n"
			if strings.Contains(lines.Text(), marker) {
				break
			}
		}
		if strings.Contains(told, "event: whole\n") != whole || !strings.Contains(told, marker) {
			t.Errorf("with revision %d of %d it is told:\n%s", given, revision, told)
		}
		leave()
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A reader that is too slow is cut off: it asks for the whole picture when it comes back.
func TestSlowReader(t *testing.T) {
	s := sourceOf(t, "single-gpu")
	events, _, _, end := s.follow()
	for i := range backlog + 1 {
		s.SetLost(strconv.Itoa(i))
	}
	if len(events) != backlog || len(s.readers) != 0 {
		t.Errorf("%d events are kept for %d readers, want %d for none", len(events), len(s.readers), backlog)
	}
	end() // it may be cut off before it ends
	s.SetLost("")
}

// serving starts a server and returns its address without the token, and the token.
func serving(t *testing.T) (address, token string) {
	t.Helper()
	return servingOf(t, sourceOf(t, "single-gpu"), Listen{Address: "127.0.0.1:0"})
}

func servingOf(t *testing.T, source *Source, where Listen) (address, token string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server, err := NewServer(ctx, source, where)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	printed, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	return printed.Scheme + "://" + printed.Host, printed.Query().Get("token")
}

// request is one to the server, and the status that it gets.
type request struct {
	method, path, host, origin, site, mode string
	cookie                                 string
	want                                   int
}

// requests are some of pages, of other pages, and of programs.
func requests(token, address, port string) map[string]request {
	return map[string]request{
		"token":                  {path: "/?token=" + token, want: 200},
		"no token":               {path: "/", want: 401},
		"wrong token":            {path: "/?token=" + strings.ToLower(token), want: 401},
		"empty token":            {path: "/?token=", want: 401},
		"token for data":         {path: "/api/picture?token=" + token, want: 401},
		"cookie":                 {path: "/api/picture", cookie: token, want: 200},
		"wrong cookie":           {path: "/api/picture", cookie: token + "x", want: 401},
		"script":                 {path: "/app.js", cookie: token, want: 200},
		"script without":         {path: "/app.js", want: 401},
		"other host":             {path: "/?token=" + token, host: "evil.example.com", want: 421},
		"other host, right port": {path: "/?token=" + token, host: "evil.example.com:" + port, want: 421},
		"other port":             {path: "/?token=" + token, host: "127.0.0.1:1", want: 421},
		"localhost":              {path: "/?token=" + token, host: "localhost:" + port, want: 200},
		"other origin":           {path: "/api/picture", cookie: token, origin: "http://evil.example.com", want: 403},
		"null origin":            {path: "/api/picture", cookie: token, origin: "null", want: 403},
		"other site":             {path: "/api/picture", cookie: token, site: "cross-site", want: 403},
		"other port of the host": {path: "/api/picture", cookie: token, site: "same-site", want: 403},
		"link of another page":   {path: "/?token=" + token, site: "cross-site", mode: "navigate", want: 200},
		"frame of another page":  {path: "/?token=" + token, site: "cross-site", mode: "no-cors", want: 403},
		"post without origin":    {method: "POST", path: "/api/whatif", cookie: token, want: 403},
		"post of another page":   {method: "POST", path: "/api/whatif", cookie: token, origin: "http://127.0.0.1:1", want: 403},
		"post of the page":       {method: "POST", path: "/api/whatif", cookie: token, origin: address, site: "same-origin", want: 200},
		"post without a cookie":  {method: "POST", path: "/api/whatif?token=" + token, origin: address, want: 401},
		"get of a question":      {path: "/api/whatif", cookie: token, want: 405},
		"file of the server":     {path: "/web/src/main.ts", cookie: token, want: 404},
		"no such explanation":    {path: "/api/explanation?revision=1&answer=-1", cookie: token, want: 404},
		"explanation beyond all": {path: "/api/explanation?revision=1&answer=99", cookie: token, want: 404},
		"explanation of before":  {path: "/api/explanation?revision=0&answer=0", cookie: token, want: 409},
		"usage":                  {path: "/api/usage?revision=1&by=class", cookie: token, want: 200},
		"usage without":          {path: "/api/usage?revision=1&by=class", want: 401},
		"usage of before":        {path: "/api/usage?revision=0&by=class", cookie: token, want: 409},
		"usage by nothing":       {path: "/api/usage?revision=1&by=color", cookie: token, want: 400},
		"no such what-if":        {path: "/api/explanation?whatif=9&answer=0", cookie: token, want: 409},
	}
}

// Only pages of the server get an answer, and only with the token.
func TestAccess(t *testing.T) {
	address, token := serving(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	for name, test := range requests(token, address, port) {
		method := test.method
		if method == "" {
			method = http.MethodGet
		}
		request, err := http.NewRequestWithContext(t.Context(), method, address+test.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if test.host != "" {
			request.Host = test.host
		}
		for header, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.site, "Sec-Fetch-Mode": test.mode} {
			if value != "" {
				request.Header.Set(header, value)
			}
		}
		if test.cookie != "" {
			request.AddCookie(&http.Cookie{Name: "dray-view-" + port, Value: test.cookie})
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if err != nil || answer.StatusCode != test.want {
			t.Errorf("%s: status %d, want %d: %.200s", name, answer.StatusCode, test.want, body)
		}
		if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", name, policy)
		}
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := answer.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		for _, cookie := range answer.Cookies() {
			if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
				t.Errorf("%s: cookie %s", name, cookie)
			}
		}
	}
}

// Questions are bounded, and have no fields that nobody knows.
func TestQuestions(t *testing.T) {
	address, token := serving(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	type reply struct {
		status int
		text   string
	}
	for body, want := range map[string]reply{
		`{"cordon": ["no-such"]}`: {422, "no-such"}, `{"wrong": 1}`: {400, "wrong"}, `[`: {400, "unexpected EOF"}, `{"yaml": "` + strings.Repeat("x", maxAsked) + `"}`: {400, "large"},
		`{"cordon": ["worker-1"]}`: {200, "worker-1"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/api/whatif", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Origin", address)
		request.AddCookie(&http.Cookie{Name: "dray-view-" + port, Value: token})
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Error(err)
		}
		if answer.StatusCode != want.status || !strings.Contains(string(text), want.text) {
			t.Errorf("%.40s: status %d, %.200s; want %d, %q", body, answer.StatusCode, text, want.status, want.text)
		}
	}
}

// Explanations are numbered from 0.
func TestExplanations(t *testing.T) {
	source := sourceOf(t, "network-attached-zones")
	s, count := &Server{source: source, access: new(access)}, len(source.Picture().answers)
	if count == 0 {
		t.Fatal("nothing waits")
	}
	for number, want := range map[int]int{-1: http.StatusNotFound, 0: http.StatusOK, count - 1: http.StatusOK, count: http.StatusNotFound} {
		answer := httptest.NewRecorder()
		s.explanation(answer, httptest.NewRequest(http.MethodGet, fmt.Sprint("/api/explanation?revision=", source.Picture().Revision, "&answer=", number), nil))
		if answer.Code != want {
			t.Errorf("explanation %d of %d: %d, want %d: %s", number, count, answer.Code, want, answer.Body)
		}
	}
}

// Others than this machine get the page by TLS, under the names of the certificate, with the token of the file.
func TestAddress(t *testing.T) {
	folder, pool := t.TempDir(), x509.NewCertPool()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	pool.AppendCertsFromPEM(writeCertificate(t, certificate, key, "dray.example.com"))
	const token = "a-token-of-more-than-16"
	address, printed := servingOf(t, sourceOf(t, "single-gpu"), Listen{Address: "0.0.0.0:0", Certificate: certificate, Key: key, Token: token})
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "https://"), ":")
	if printed != token || address != "https://dray.example.com:"+port {
		t.Errorf("address %s, token %s", address, printed)
	}
	trusting := clientOf(t, port, &tls.Config{RootCAs: pool})
	for name, test := range map[string]struct {
		path, host, cookie string
		want               int
	}{
		"token": {"/?token=" + token, "", "", 200}, "no token": {"/", "", "", 401}, "wrong token": {"/?token=" + token + "x", "", "", 401},
		"cookie": {"/api/picture", "", token, 200}, "no cookie": {"/api/picture", "", "", 401}, "wrong cookie": {"/api/picture", "", "x", 401},
		"without a port": {"/?token=" + token, "dray.example.com", "", 200}, "other name": {"/?token=" + token, "evil.example.com:" + port, "", 421},
		"address": {"/?token=" + token, "127.0.0.1:" + port, "", 421}, "localhost": {"/?token=" + token, "localhost:" + port, "", 421},
	} {
		status, header, err := get(t, trusting, address+test.path, test.host, &http.Cookie{Name: "dray-view-" + port, Value: test.cookie})
		if err != nil || status != test.want {
			t.Errorf("%s: status %d, error %v, want %d", name, status, err, test.want)
		}
		if cookie := header.Get("Set-Cookie"); test.cookie == "" && test.want == 200 && !strings.Contains(cookie, "; Secure") {
			t.Errorf("%s: cookie %q goes over connections without TLS", name, cookie)
		}
	}
	if _, _, err := get(t, clientOf(t, port, &tls.Config{}), address+"/?token="+token, "", nil); err == nil {
		t.Error("a client that does not know the issuer gets the page")
	}
	if _, _, err := get(t, clientOf(t, port, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12}), address+"/?token="+token, "", nil); err == nil {
		t.Error("a client of TLS 1.2 gets the page")
	}
	if status, _, _ := get(t, http.DefaultClient, "http://127.0.0.1:"+port+"/?token="+token, "", nil); status == http.StatusOK {
		t.Error("the page is there without TLS")
	}
}

// clientOf dials this machine, whatever the name.
func clientOf(t *testing.T, port string, config *tls.Config) *http.Client {
	t.Helper()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	transport := &http.Transport{DialContext: dial, TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get asks for an address, under another host name if it is given, with a cookie that has a value.
func get(t *testing.T, client *http.Client, address, host string, cookie *http.Cookie) (status int, header http.Header, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	if cookie != nil && cookie.Value != "" {
		request.AddCookie(cookie)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Header, errors.Join(err, answer.Body.Close())
}

// writeCertificate writes a certificate that is its own issuer, and its key. It returns the certificate.
func writeCertificate(t *testing.T, certificate, key, name string) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	if err := errors.Join(os.WriteFile(certificate, public, 0o600), os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return public
}

// Without a certificate nobody else can reach the page.
func TestLoopbackOnly(t *testing.T) {
	server, err := NewServer(t.Context(), &Source{}, Listen{Address: "0.0.0.0:0"})
	if err == nil || !strings.Contains(err.Error(), "for this machine only") {
		t.Errorf("server %v, error %v", server, err)
	}
}

// A file has no text that ends the element that it stands in, and its policy names what is in it.
func TestFileIsOne(t *testing.T) {
	p := pictureOf(t, clusters(t)["single-gpu"])
	p.Nodes[0].Name = "</script><script>alert(1)</script><!--"
	var out, drawing bytes.Buffer
	if err := WriteFile(&out, p); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if strings.Contains(page, "alert(1)</script>") || strings.Count(page, "</script>") != 2 || strings.Contains(page, "app.js") || strings.Contains(page, "app.css") || strings.Contains(page, "icon.svg") {
		t.Errorf("the file is not one: %d script elements end", strings.Count(page, "</script>"))
	}
	if err := WriteSVG(&drawing, p); err != nil {
		t.Fatal(err)
	}
	if text := drawing.String(); strings.Contains(text, "<script>") || !strings.Contains(text, "&lt;script&gt;") {
		t.Error("the drawing has a script")
	}
}
