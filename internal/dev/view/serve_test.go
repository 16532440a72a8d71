// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// Others than this machine get the whole page by TLS. Its cookie is out of reach of scripts and of connections without TLS, and
// the address does not hold the token any more.
func TestCertificate(t *testing.T) {
	folder := t.TempDir()
	certificate, key, token := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"), filepath.Join(folder, "token")
	writeCertificate(t, certificate, key)
	if err := os.WriteFile(token, []byte("a-token-of-more-than-16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serve(t, "-f", example("single-gpu"), "--address", "127.0.0.1:0", "--tls-cert-file", certificate, "--tls-private-key-file", key, "--token-file", token)
	if !strings.HasPrefix(address, "https://localhost:") || !strings.HasSuffix(address, "/?token=a-token-of-more-than-16") {
		t.Errorf("the address is %s", address)
	}
	o := open(t, address, 1280, 800, security.SetIgnoreCertificateErrors(true))
	o.untilText(".legend", "devices")
	o.click("Usage")
	o.untilText(".usage", "nobody")
	if here := value[string](o, `location.href + document.cookie`); strings.Contains(here, "token") {
		t.Errorf("the token is in %s", here)
	}
	cookies := func() (all []*network.Cookie) {
		o.run(chromedp.ActionFunc(func(ctx context.Context) (err error) { all, err = network.GetCookies().Do(ctx); return err }))
		return all
	}()
	if len(cookies) != 1 || !cookies[0].HTTPOnly || !cookies[0].Secure || cookies[0].SameSite != network.CookieSameSiteStrict || !cookies[0].Session {
		t.Errorf("cookies %+v", cookies)
	}
}

// writeCertificate writes a certificate of localhost that is its own issuer, and its key.
func writeCertificate(t *testing.T, certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The served page has no script of its own in it, and its policy lets none in: neither as an element, nor as an attribute, nor as text.
func TestPolicy(t *testing.T) {
	address := serve(t, "-f", example("single-gpu"))
	o := open(t, address, 1280, 800)
	html := value[string](o, `fetch("/").then((r) => r.text())`)
	for _, inline := range []string{"<script>", "<style", " style=", " onload=", " onclick=", "javascript:"} {
		if strings.Contains(html, inline) {
			t.Errorf("the page has %s", inline)
		}
	}
	for name, attempt := range map[string]string{
		"element":   `const s = document.createElement("script"); s.append("window.broken = 1"); document.head.append(s);`,
		"attribute": `const b = document.createElement("button"); b.setAttribute("onclick", "window.broken = 1"); document.body.append(b); b.click();`,
		"markup":    `document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.broken = 1'>");`,
		"eval":      `eval("window.broken = 1");`,
		"function":  `new Function("window.broken = 1")();`,
		"other":     `const s = document.createElement("script"); s.src = "data:text/javascript,window.broken = 1"; document.head.append(s);`,
		"frame":     `const f = document.createElement("iframe"); f.srcdoc = "<script>parent.broken = 1</" + "script>"; document.body.append(f);`,
		"request":   `await fetch("https://127.0.0.1:1/").then(() => {}, (e) => { if (!violations.some((v) => v === "connect-src")) throw e; });`,
	} {
		var broken string
		attempt = `(async () => {
			window.broken = undefined; window.violations = []; document.addEventListener("securitypolicyviolation", (e) => violations.push(e.effectiveDirective));
			let thrown = ""; try { ` + attempt + ` } catch (e) { thrown = e.name; }
			for (let n = 0; n < 5; n++) await new Promise(requestAnimationFrame);
			return window.broken ? "it ran" : violations.length || thrown ? "" : "nothing complained"; })()`
		o.run(chromedp.Evaluate(attempt, &broken, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
			return p.WithAwaitPromise(true).WithAllowUnsafeEvalBlockedByCSP(false)
		}))
		if broken != "" {
			t.Errorf("%s: %s", name, broken)
		}
	}
	o.lock.Lock()
	o.said = nil // the refusals of the policy are meant
	o.lock.Unlock()
}

// The page says that the server is gone, and goes on when it is there again.
func TestServerComesBack(t *testing.T) {
	folder := t.TempDir()
	token := filepath.Join(folder, "token")
	if err := os.WriteFile(token, []byte("a-token-of-more-than-16"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := start(t, "-f", example("single-gpu"), "--token-file", token)
	o := open(t, first.address, 1280, 800)
	o.untilText(".status", "as read once")
	first.end()
	o.untilText(".status", "dray view does not answer: it may have ended")
	parsed, err := url.Parse(first.address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, "-f", example("single-gpu"), "--token-file", token, "--port", parsed.Port())
	o.untilText(".status", "as read once")
}

// A browser is opened with the printed address, unless nobody wants one.
func TestBrowserOpens(t *testing.T) {
	folder := t.TempDir()
	opened := filepath.Join(folder, "opened")
	script := "#!/bin/sh\nprintf '%s\\n' \"$1\" > " + opened + ".new && mv " + opened + ".new " + opened + "\n"
	if err := os.WriteFile(filepath.Join(folder, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	quiet := serve(t, "-f", example("single-gpu")) // with --open=false
	address := serve(t, "-f", example("single-gpu"), "--open=true")
	deadline := time.Now().Add(patience)
	for {
		content, err := os.ReadFile(opened)
		if err == nil {
			if got := strings.TrimSpace(string(content)); got != address {
				t.Errorf("the browser is opened with %s, want %s", got, address)
			}
			break
		}
		if !errors.Is(err, os.ErrNotExist) || time.Now().After(deadline) {
			t.Fatalf("no browser is opened: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, each := range []string{quiet, address} {
		parsed, err := url.Parse(each)
		if err != nil {
			t.Fatal(err)
		}
		if ip := net.ParseIP(parsed.Hostname()); !ip.IsLoopback() {
			t.Errorf("%s is not an address of this machine only", each)
		}
		answer, err := http.Get(each) //nolint:noctx // a test ends
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, error %v", each, answer.StatusCode, err)
		}
	}
	if out, err := exec.Command(binary, "view", "-f", example("single-gpu"), "--open=false", "--address", "0.0.0.0:0").CombinedOutput(); err == nil {
		t.Errorf("the page is served to everybody: %s", out)
	}
}
