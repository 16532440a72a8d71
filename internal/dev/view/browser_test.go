// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	binary = "bin/dray"
	// patience is how long is waited for what must happen, on machines that have other things to do.
	patience = 40 * time.Second
)

// chromium is the browser. It is started once.
var chromium context.Context

func TestMain(m *testing.M) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Fprintln(os.Stderr, "chromium is missing: on Debian, apt-get install chromium")
		os.Exit(1)
	}
	if err := os.Chdir("../../.."); err != nil { // where people call dray
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 800), chromedp.Flag("enable-precise-memory-info", true),
		chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	var stop context.CancelFunc
	chromium, stop = chromedp.NewContext(allocator)
	if err := chromedp.Run(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "start chromium:", err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	end()
	os.Exit(code)
}

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx   context.Context
	close context.CancelFunc

	lock sync.Mutex
	// said is what the page complained about, asked what it loaded.
	said, asked []string
}

// open opens an address in a tab of its own, that wide and high.
func open(t *testing.T, address string, width, height int64, first ...chromedp.Action) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium)
	t.Cleanup(end)
	o := &tab{T: t, ctx: ctx, close: end}
	chromedp.ListenTarget(ctx, func(event any) {
		o.lock.Lock()
		defer o.lock.Unlock()
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			o.said = append(o.said, event.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if event.Type == runtime.APITypeError {
				o.said = append(o.said, fmt.Sprint(event.Args))
			}
		case *log.EventEntryAdded:
			if event.Entry.Level == log.LevelError && event.Entry.Source != log.SourceNetwork {
				o.said = append(o.said, event.Entry.Text)
			}
		case *page.EventJavascriptDialogOpening:
			o.said = append(o.said, "dialog: "+event.Message)
		case *network.EventRequestWillBeSent:
			o.asked = append(o.asked, event.Request.URL)
		}
	})
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context of the first run
		t.Fatal(err)
	}
	o.run(append([]chromedp.Action{network.Enable(), log.Enable(), emulation.SetDeviceMetricsOverride(width, height, 1, false)}, first...)...)
	o.run(chromedp.Navigate(address))
	o.until(`document.querySelector("h1") !== null`)
	t.Cleanup(func() {
		o.lock.Lock()
		defer o.lock.Unlock()
		for _, text := range o.said {
			t.Errorf("the page complains: %s", text)
		}
	})
	return o
}

func (o *tab) run(actions ...chromedp.Action) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		o.Fatal(err)
	}
}

// value is what an expression of JavaScript is.
func value[T any](o *tab, expression string) T {
	o.Helper()
	var result T
	o.run(chromedp.Evaluate(expression, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return result
}

// until waits until an expression is true.
func (o *tab) until(expression string) {
	o.Helper()
	deadline := time.Now().Add(patience)
	for {
		var isTrue bool
		ctx, cancel := context.WithTimeout(o.ctx, patience)
		err := chromedp.Run(ctx, chromedp.Evaluate("Boolean("+expression+")", &isTrue))
		cancel()
		if err == nil && isTrue {
			return
		}
		if time.Now().After(deadline) {
			var text string
			_ = chromedp.Run(o.ctx, chromedp.Evaluate(`document.body.innerText.slice(0, 3000)`, &text))
			o.Fatalf("waited in vain for %s: %v; the page says:\n%s\nand complained: %v", expression, err, text, o.said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// untilText waits until an element has a text.
func (o *tab) untilText(selector, text string) {
	o.Helper()
	o.until(fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").includes(%q)`, selector, text))
}

// byRole finds elements as assistive technology sees them. A name that ends with * is that of all that begin so.
func (o *tab) byRole(role, name string) []cdp.BackendNodeID {
	o.Helper()
	prefix, begins := strings.CutSuffix(name, "*")
	var found []cdp.BackendNodeID
	o.run(chromedp.ActionFunc(func(ctx context.Context) error {
		var nodes []*accessibility.Node
		for gone := true; gone; {
			document, err := dom.GetDocument().Do(ctx)
			if err != nil {
				return err
			}
			query := accessibility.QueryAXTree().WithNodeID(document.NodeID).WithRole(role)
			if !begins {
				query = query.WithAccessibleName(name)
			}
			if nodes, err = query.Do(ctx); err != nil && !isGone(err) {
				return err
			}
			gone = err != nil // the browser has another document meanwhile
		}
		for _, node := range nodes {
			if node.Ignored || begins && !strings.Contains(string(node.Name.Value), prefix) {
				continue
			}
			found = append(found, node.BackendDOMNodeID)
		}
		return nil
	}))
	return found
}

// isGone reports whether an error says that a node of the document is not there any more.
func isGone(err error) bool { return strings.Contains(err.Error(), "Could not find node") }

// click clicks the only button of that name.
func (o *tab) click(name string) {
	o.Helper()
	for range 10 {
		if o.clicked(name) {
			return
		}
	}
	o.Fatalf("the button called %q is drawn anew all the time", name)
}

// clicked reports whether it could click a button. It could not if the page drew the button anew meanwhile.
func (o *tab) clicked(name string) (done bool) {
	o.Helper()
	found := o.byRole("button", name)
	if len(found) == 0 {
		o.Fatalf("there is no button called %q", name)
	}
	o.run(chromedp.ActionFunc(func(ctx context.Context) error {
		object, err := dom.ResolveNode().WithBackendNodeID(found[0]).Do(ctx)
		if err != nil {
			if isGone(err) {
				return nil
			}
			return err
		}
		done = true
		_, thrown, err := runtime.CallFunctionOn("function () { this.scrollIntoView({block: 'center'}); this.click(); }").WithObjectID(object.ObjectID).WithUserGesture(true).Do(ctx)
		if thrown != nil {
			return thrown
		}
		return err
	}))
	return done
}

// fill sets a field by its label.
func (o *tab) fill(label, text string) {
	o.Helper()
	o.run(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const label = [...document.querySelectorAll("label")].find((l) => l.innerText.trim() === %q && l.control?.offsetParent);
		label.control.value = %q;
		for (const kind of ["input", "change"]) label.control.dispatchEvent(new Event(kind, {bubbles: true}));
	})()`, label, text), nil))
}

// screenshot makes a picture if somebody wants it.
func (o *tab) screenshot(name string) {
	folder := os.Getenv("DRAY_SCREENSHOTS")
	if folder == "" {
		return
	}
	o.Helper()
	var picture []byte
	o.run(chromedp.Evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`, nil,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }), chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		o.Fatal(err)
	}
}

// serve starts dray view, and returns the address that it prints.
func serve(t *testing.T, arguments ...string) string {
	t.Helper()
	return start(t, arguments...).address
}

// server is a dray view that runs.
type server struct {
	address string
	pid     int
	// end ends it before the test does.
	end func()
}

func start(t *testing.T, arguments ...string) *server {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, append([]string{"view", "--open=false"}, arguments...)...)
	said := new(bytes.Buffer)
	command.Stderr = said
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
		for line := range strings.Lines(said.String()) {
			if !strings.HasPrefix(line, "warning: ") && !strings.HasPrefix(line, "ignored: ") {
				t.Errorf("dray view %v: on standard error: %s", arguments, line)
			}
		}
	})
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("dray view %v: no address: %v", arguments, err)
	}
	return &server{strings.TrimSpace(line), command.Process.Pid, end}
}

func example(name string) string { return filepath.Join("examples", name) }

// manifest writes a file.
func manifest(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
