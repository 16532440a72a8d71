package view

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// serving starts a server and returns its address without the token, and the token.
func serving(t *testing.T) (address, token string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server, err := NewServer(ctx, sourceOf(t, "single-gpu"), Listen{Address: "127.0.0.1:0"})
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
	return "http://" + printed.Host, printed.Query().Get("token")
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
		"explanation of before":  {path: "/api/explanation?revision=0&answer=0", cookie: token, want: 409},
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
	for body, want := range map[string]int{
		`{"cordon": ["no-such"]}`: 422, `{"wrong": 1}`: 400, `[`: 400, `{"yaml": "` + strings.Repeat("x", mostAsked) + `"}`: 400,
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
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if answer.StatusCode != want {
			t.Errorf("%.40s: status %d, want %d", body, answer.StatusCode, want)
		}
	}
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
