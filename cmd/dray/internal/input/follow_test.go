// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// followed is an API server with objects in JSON, by the path that lists them.
type followed struct {
	objects map[string][]string
	// refused are answers other than a list, by path.
	refused map[string]int
	// events are sent to each watch of a path, by path.
	events map[string]chan string
}

func (s *followed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if code := s.refused[r.URL.Path]; code != 0 {
		reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound", http.StatusTeapot: "Teapot"}[code]
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "no", "code": %d}`, reason, code)
		return
	}
	query := r.URL.Query()
	if query.Get("watch") == "" {
		fmt.Fprintf(w, `{"metadata": {"resourceVersion": "1"}, "items": [%s]}`, strings.Join(s.objects[r.URL.Path], ","))
		return
	}
	send := func(kind, object string) {
		fmt.Fprintf(w, `{"type": %q, "object": %s}`+"\n", kind, object)
		_ = http.NewResponseController(w).Flush()
	}
	if query.Get("sendInitialEvents") == "true" {
		for _, object := range s.objects[r.URL.Path] {
			send("ADDED", object)
		}
		kind, version := kindOf(r.URL.Path)
		send("BOOKMARK", fmt.Sprintf(`{"kind": %q, "apiVersion": %q, "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}`, kind, version))
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case event := <-s.events[r.URL.Path]:
			kind, object, _ := strings.Cut(event, " ")
			send(kind, object)
		case <-r.Context().Done():
			return
		}
	}
}

// kindOf returns the kind and the version of the objects of a path.
func kindOf(path string) (kind, version string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	kinds := map[string]string{
		"nodes": "Node", "pods": "Pod", "deviceclasses": "DeviceClass", "resourceslices": "ResourceSlice", "resourceclaims": "ResourceClaim",
		"resourceclaimtemplates": "ResourceClaimTemplate", "devicetaintrules": "DeviceTaintRule", "podgroups": "PodGroup",
	}
	version = "v1"
	if parts[0] == "apis" {
		version = parts[1] + "/" + parts[2]
	}
	return kinds[parts[len(parts)-1]], version
}

func (s *followed) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func podJSON(namespace, name string) string {
	return fmt.Sprintf(`{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": %q, "namespace": %q, "resourceVersion": "1", "managedFields": [{"manager": "x"}]},
"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}}`, name, namespace)
}

// follow follows a cluster until the test ends.
func follow(t *testing.T, s *followed) (*Follower, int, error) {
	t.Helper()
	client := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	f, err := Follow(ctx, client, "mine", func() { steps++ })
	t.Cleanup(func() {
		cancel()
		if f != nil {
			f.Wait()
		}
	})
	return f, steps, err
}

func podNames(t *testing.T, f *Follower) []string {
	t.Helper()
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range objects.Pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}

// TestFollow has the objects of a cluster in order, with defaults, and each change of them.
func TestFollow(t *testing.T) {
	s := &followed{
		objects: map[string][]string{
			"/api/v1/pods": {podJSON("b", "a"), podJSON("a", "z"), podJSON("a", "y")}, "/api/v1/nodes": {`{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}`},
			"/apis/resource.k8s.io/v1/resourceclaims": {`{"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "c", "namespace": "a"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}`},
		},
		events: map[string]chan string{"/api/v1/pods": make(chan string)},
	}
	f, steps, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if steps != 8 {
		t.Errorf("%d resources are followed, want 8", steps)
	}
	if diff := cmp.Diff([]string{"a/y", "a/z", "b/a"}, podNames(t, f)); diff != "" {
		t.Errorf("pods: want -, got +\n%s", diff)
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Warnings) > 0 || len(objects.Nodes) != 1 || f.Broken() != nil {
		t.Errorf("warnings %v, %d nodes, broken %v", objects.Warnings, len(objects.Nodes), f.Broken())
	}
	pod := objects.Pods[0]
	if origin, known := objects.Origin("Pod", "a", "y"); pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 || pod.ManagedFields != nil || !known || origin.File != "cluster" {
		t.Errorf("pod %v of %v", pod, origin)
	}
	if got := objects.Claims[0].Spec.Devices.Requests[0].Exactly; got.Count != 1 || got.AllocationMode != "ExactCount" {
		t.Errorf("claim without defaults: %+v", got)
	}
	for _, c := range []struct {
		event string
		want  []string
	}{
		{"ADDED " + podJSON("c", "new"), []string{"a/y", "a/z", "b/a", "c/new"}},
		{"DELETED " + podJSON("a", "z"), []string{"a/y", "b/a", "c/new"}},
	} {
		s.events["/api/v1/pods"] <- c.event
		for diff := "unseen"; diff != ""; diff = cmp.Diff(c.want, podNames(t, f)) {
			select {
			case <-f.Changed():
			case <-time.After(time.Minute):
				t.Fatalf("%s: not told; want -, got +\n%s", c.event, diff)
			}
		}
	}
}

// TestFollowPermitted has what is followed with few permissions, and what the user is told of the rest.
func TestFollowPermitted(t *testing.T) {
	const pods, nodes, claims = "/api/v1/pods", "/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceclaims"
	const inMine = "/api/v1/namespaces/mine/pods"
	notAll := "cluster: list pods: not permitted in all namespaces: those of namespace mine are looked at, and what others hold of devices is not known"
	for name, c := range map[string]struct {
		refused  map[string]int
		steps    int
		pods     []string
		warnings []string
		err      string
	}{
		"all":              {steps: 8, pods: []string{"mine/p", "other/q"}},
		"no taint rules":   {refused: map[string]int{"/apis/resource.k8s.io/v1/devicetaintrules": 403}, steps: 7, pods: []string{"mine/p", "other/q"}},
		"no pod groups":    {refused: map[string]int{"/apis/scheduling.k8s.io/v1beta1/podgroups": 404}, steps: 7, pods: []string{"mine/p", "other/q"}},
		"one namespace":    {refused: map[string]int{pods: 403}, steps: 8, pods: []string{"mine/p"}, warnings: []string{notAll}},
		"no pods":          {refused: map[string]int{pods: 403, inMine: 403}, steps: 7, warnings: []string{"cluster: list pods: not permitted: they are left out"}},
		"no nodes":         {refused: map[string]int{nodes: 403}, steps: 7, pods: []string{"mine/p", "other/q"}, warnings: []string{"cluster: list nodes: not permitted: they are left out"}},
		"no claims at all": {refused: map[string]int{claims: 404}, err: "list resourceclaims: no: the cluster does not serve resource.k8s.io/v1, as Kubernetes 1.34 and later do: "},
		"a broken server":  {refused: map[string]int{nodes: 418}, err: "list nodes: "},
		"broken for one":   {refused: map[string]int{pods: 403, inMine: 418}, err: "list pods: "},
		"broken groups":    {refused: map[string]int{"/apis/scheduling.k8s.io/v1beta1/podgroups": 418}, err: "list podgroups: "},
	} {
		s := &followed{refused: c.refused, objects: map[string][]string{pods: {podJSON("other", "q"), podJSON("mine", "p")}, inMine: {podJSON("mine", "p")}}}
		f, steps, err := follow(t, s)
		if c.err != "" {
			_, listErr := Live(t.Context(), s.client(t), "mine", nil)
			if err == nil || !strings.HasPrefix(err.Error(), c.err) || listErr == nil || !strings.HasPrefix(listErr.Error(), c.err) {
				t.Errorf("%s: followed %v, listed %v, want %q", name, err, listErr, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		objects, err := f.Objects()
		if err != nil {
			t.Fatal(err)
		}
		var warnings []string
		for _, warning := range objects.Warnings {
			warnings = append(warnings, warning.Error())
		}
		if diff := cmp.Diff(c.warnings, warnings) + cmp.Diff(c.pods, podNames(t, f)); diff != "" || steps != c.steps {
			t.Errorf("%s: %d resources, want %d; want -, got +\n%s", name, steps, c.steps, diff)
		}
	}
}

// TestFollowEnds has the reason why a cluster is not followed when the context ends before all is listed.
func TestFollowEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	f, err := Follow(ctx, (&followed{}).client(t), "mine", func() { cancel(enough) })
	if f != nil || err == nil || !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", f, err)
	}
}

// TestBroken has what is said of resources that cannot be followed, and when it is told that this has changed.
func TestBroken(t *testing.T) {
	f := &Follower{changed: make(chan struct{}, 1), broken: make(map[string]error)}
	resource := schema.GroupResource{Resource: "pods"}
	for i, c := range []struct {
		resource string
		err      error
		told     bool
		want     string
	}{
		{"pods", nil, false, ""},
		{"pods", errors.New("refused"), true, "pods: refused"},
		{"pods", errors.New("refused"), false, "pods: refused"},
		{"nodes", errors.New("away"), true, "nodes, pods: away"},
		{"claims", apierrors.NewResourceExpired("old"), false, "nodes, pods: away"},
		{"claims", apierrors.NewResourceExpired("gone"), false, "nodes, pods: away"},
		{"claims", fmt.Errorf("end: %w", context.Canceled), false, "nodes, pods: away"},
		{"nodes", nil, true, "pods: refused"},
		{"pods", apierrors.NewForbidden(resource, "", errors.New("not yours")), true, "pods: pods is forbidden: not yours"},
		{"pods", nil, true, ""},
	} {
		f.setError(c.resource, c.err)
		told := false
		select {
		case <-f.Changed():
			told = true
		default:
		}
		got := ""
		if err := f.Broken(); err != nil {
			got = err.Error()
		}
		if got != c.want || told != c.told {
			t.Errorf("step %d: broken %q, want %q; told %v, want %v", i, got, c.want, told, c.told)
		}
	}
	f.setError("pods", errors.New("a"))
	f.setError("nodes", errors.New("b")) // Nobody has read what was told before: it does not wait.
}

// DeviceTaintRules of a cluster that serves them as v1beta2 only, as Kubernetes 1.36 does, count as those of v1.
func TestEarlierTaintRules(t *testing.T) {
	const current, earlier = "/apis/resource.k8s.io/v1/devicetaintrules", "/apis/resource.k8s.io/v1beta2/devicetaintrules"
	rule := func(version, driver string) string {
		return fmt.Sprintf(`{"kind": "DeviceTaintRule", "apiVersion": %q, "metadata": {"name": "sick"}, "spec": {"deviceSelector": {"driver": %q}, "taint": {"key": "sick", "effect": "NoSchedule"}}}`, version, driver)
	}
	served := map[string][]string{current: {rule("resource.k8s.io/v1", "new.example.com")}, earlier: {rule("resource.k8s.io/v1beta2", "old.example.com")}}
	for name, c := range map[string]struct {
		refused map[string]int
		want    string // driver
	}{
		"both":           {nil, "new.example.com"},
		"v1beta2 only":   {map[string]int{current: 404}, "old.example.com"},
		"none":           {map[string]int{current: 404, earlier: 404}, ""},
		"v1 not allowed": {map[string]int{current: 403}, ""},
	} {
		s := &followed{objects: served, refused: c.refused}
		listed, err := Live(t.Context(), s.client(t), "mine", nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, _, err := follow(t, s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		watched, err := f.Objects()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for how, objects := range map[string]*Objects{"listed": listed, "followed": watched} {
			got := ""
			for _, rule := range objects.TaintRules {
				got += *rule.Spec.DeviceSelector.Driver
			}
			if got != c.want {
				t.Errorf("%s, %s: rules for %q, want %q", name, how, got, c.want)
			}
		}
	}
}
