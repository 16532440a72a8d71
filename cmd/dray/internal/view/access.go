// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// access authenticates requests: they must have the token, and come from a page of this server. It
// refuses requests from other sites, and requests with another host name, as in DNS rebinding
// attacks.
type access struct {
	token  string
	cookie string // name of the cookie; it contains the port, since browsers share cookies between ports
	scheme string
	// address is the listening address. certificate has the valid host names. It is nil for a
	// loopback address.
	address     *net.TCPAddr
	certificate *x509.Certificate
}

// newToken returns a random token with at least 128 bits.
func newToken() string { return rand.Text() }

// policy is the Content-Security-Policy: the page loads only resources of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch {
		case !a.knownHost(r.Host):
			http.Error(w, "this page is not served under that host name", http.StatusMisdirectedRequest)
		case !a.sameOrigin(r):
			http.Error(w, "requests of other pages are refused", http.StatusForbidden)
		case !a.admits(w, r):
			http.Error(w, "the token is missing or wrong: use the whole address that dray view has printed", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knownHost reports whether a Host header names this server.
func (a *access) knownHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, map[string]string{"http": "80", "https": "443"}[a.scheme]
	}
	if a.certificate != nil {
		return a.certificate.VerifyHostname(strings.Trim(name, "[]")) == nil
	}
	_, own, err := net.SplitHostPort(a.address.String())
	return err == nil && port == own && (name == "localhost" || name == a.address.IP.String())
}

// sameOrigin reports whether a request comes from a page of this server, or from no page. A request
// that changes nothing may also come from a link or the address bar. Other methods need an Origin
// header with the origin of this page.
func (a *access) sameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	navigation := r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	if site != "" && site != "same-origin" && site != "none" && !navigation {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	from, err := url.Parse(origin)
	return err == nil && from.Scheme == a.scheme && from.Host == r.Host
}

// admits checks the token of a request. If it is in the URL of the page, admits sets a cookie.
func (a *access) admits(w http.ResponseWriter, r *http.Request) bool {
	if cookie, err := r.Cookie(a.cookie); err == nil && a.isToken(cookie.Value) {
		return true
	}
	if r.Method != http.MethodGet || r.URL.Path != "/" || !a.isToken(r.URL.Query().Get("token")) {
		return false
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie, Value: a.token, Path: "/", HttpOnly: true, Secure: a.scheme == "https", SameSite: http.SameSiteStrictMode,
	})
	return true
}

func (a *access) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(a.token)) == 1
}
