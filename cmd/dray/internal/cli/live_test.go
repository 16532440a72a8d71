// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// paths say where an API server lists the kinds of the examples.
var paths = map[string]string{
	"Node":                  "/api/v1/nodes",
	"Pod":                   "/api/v1/pods",
	"DeviceClass":           "/apis/resource.k8s.io/v1/deviceclasses",
	"ResourceSlice":         "/apis/resource.k8s.io/v1/resourceslices",
	"ResourceClaim":         "/apis/resource.k8s.io/v1/resourceclaims",
	"ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
	"DeviceTaintRule":       "/apis/resource.k8s.io/v1/devicetaintrules",
	"PodGroup":              "/apis/scheduling.k8s.io/v1beta1/podgroups",
	"Job":                   "/apis/batch/v1/jobs",
	"PodDisruptionBudget":   "/apis/policy/v1/poddisruptionbudgets",
}

// apiServer lists objects, a few per page, and allows nothing else.
type apiServer struct {
	objects map[string][]map[string]any // by path
	pages   int
	listed  map[string]bool // paths
	refuse  string          // path that is forbidden
}

const pageSize = 2

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, known := s.objects[r.URL.Path]
	s.listed[r.URL.Path] = true
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.URL.Path == s.refuse:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "not yours", "code": 403}`)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	default:
		s.pages++
		start, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		end := min(start+pageSize, len(all))
		metadata := map[string]any{"resourceVersion": "1"}
		if end < len(all) {
			metadata["continue"] = strconv.Itoa(end)
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"metadata": metadata, "items": all[start:end]}); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

// serve starts an API server with the objects of an example and returns it together
// with a kubeconfig.
func serve(t *testing.T, example string) (*apiServer, string) {
	t.Helper()
	s := &apiServer{objects: make(map[string][]map[string]any), listed: make(map[string]bool)}
	for _, path := range paths {
		s.objects[path] = nil
	}
	files, err := filepath.Glob(filepath.Join(example, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, error %v", example, len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			s.add(t, document)
		}
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", Namespace: "llm"}
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return s, kubeconfig
}

func (s *apiServer) add(t *testing.T, document string) {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	path := paths[object["kind"].(string)]
	s.objects[path] = append(s.objects[path], object)
}

// A cluster gives the same answers as the files it was made from.
func TestLive(t *testing.T) {
	atRepository(t)
	const example = "examples/prioritized-fallback"
	server, kubeconfig := serve(t, example)
	for _, command := range []string{"dray allocate -o yaml", "dray explain serve-4 -n llm", "kubectl-dray devices"} {
		arguments := strings.Fields(command)
		want := run("", append(arguments, "-f", example)...)
		got := run("", append(arguments, "--kubeconfig", kubeconfig, "--context", "test")...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-files +cluster):\n%s", command, diff)
		}
	}
	if least := 3 * 9; server.pages < least {
		t.Errorf("%d pages were listed, want at least %d of %d objects each", server.pages, least, pageSize)
	}
}

func TestLiveNamespaceOfContext(t *testing.T) {
	atRepository(t)
	_, kubeconfig := serve(t, "examples/prioritized-fallback")
	output, status := runStatus("", "dray", "explain", "nobody", "--kubeconfig", kubeconfig, "--context", "test")
	if want := "Pod llm/nobody does not exist"; status != cli.ExitError || !strings.Contains(output, want) {
		t.Errorf("exit status %d, want %q in:\n%s", status, want, output)
	}
}

// Taint rules are optional, everything else is not.
func TestLiveForbidden(t *testing.T) {
	atRepository(t)
	for kind, want := range map[string]int{"DeviceTaintRule": cli.ExitOK, "ResourceSlice": cli.ExitError} {
		server, kubeconfig := serve(t, "examples/single-gpu")
		server.refuse = paths[kind]
		output, status := runStatus("", "dray", "devices", "--kubeconfig", kubeconfig, "--context", "test")
		if status != want {
			t.Errorf("%s forbidden: exit status %d, want %d:\n%s", kind, status, want, output)
		}
		if want == cli.ExitError && !strings.Contains(output, "error: list resourceslices: ") {
			t.Errorf("the kind is not named:\n%s", output)
		}
	}
}

func TestLiveUnreachable(t *testing.T) {
	atRepository(t)
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	output, status := runStatus("", "dray", "devices", "--kubeconfig", kubeconfig, "--context", "test")
	if status != cli.ExitError || !strings.Contains(output, "error: list nodes: ") {
		t.Errorf("exit status %d:\n%s", status, output)
	}
}

// A server that does not answer.
func TestRequestTimeout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	output, status := runStatus("", "dray", "devices", "--server", server.URL, "--request-timeout=50ms")
	if status != cli.ExitError || !strings.HasSuffix(output, ": --request-timeout: 50ms have passed\n") {
		t.Errorf("exit status %d:\n%s", status, output)
	}
}

// Without a kubeconfig, the error says so, and not only that no server answers on this machine.
func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	out, status := runStatus("", "dray", "explain", "--timeout=1m")
	if want := "no -f, and no cluster in a kubeconfig"; status != cli.ExitError || !strings.Contains(out, want) {
		t.Errorf("status %d, want %q in:\n%s", status, want, out)
	}
	// Who names a server has said which cluster is meant.
	out, status = runStatus("", "dray", "explain", "--timeout=1m", "--server=http://127.0.0.1:1")
	if status != cli.ExitError || !strings.Contains(out, "127.0.0.1:1") || strings.Contains(out, "no -f") {
		t.Errorf("with --server: status %d:\n%s", status, out)
	}
}

func TestTimeoutBelowZero(t *testing.T) {
	out, status := runStatus("", "dray", "explain", "--timeout=-5s", "-f", "-")
	if want := "error: --timeout -5s: want 0 or more\n"; status != cli.ExitError || out != want {
		t.Errorf("status %d, output %q, want %q", status, out, want)
	}
}

// deploy/cli-rbac.yaml permits what is listed, and to watch what dray view follows, and nothing else: dray-reader by itself,
// and the other two together.
func TestRBAC(t *testing.T) {
	atRepository(t)
	server, kubeconfig := serve(t, "examples/single-gpu")
	run("", "dray", "explain", "-A", "--kubeconfig", kubeconfig, "--context", "test")
	run("", "dray", "simulate", "when", "--kubeconfig", kubeconfig, "--context", "test")
	run("", "dray", "simulate", "repack", "--for", "finetune", "--kubeconfig", kubeconfig, "--context", "test")
	content, err := os.ReadFile("deploy/cli-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const whole = "dray-reader"
	permitted := map[bool]map[string]bool{true: {}, false: {}}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.AggregationRule != nil {
			t.Errorf("%s needs a controller that fills in its rules", role.Name)
		}
		for _, rule := range role.Rules {
			verbs := []string{"list", "watch"}
			if group := rule.APIGroups[0]; group == "batch" || group == "policy" {
				verbs = verbs[:1]
			}
			if diff := cmp.Diff(verbs, rule.Verbs); diff != "" {
				t.Errorf("%s: verbs (-want +got):\n%s", role.Name, diff)
			}
			for _, resource := range rule.Resources {
				permitted[role.Name == whole][rule.APIGroups[0]+"/"+resource] = true
			}
		}
	}
	listed := make(map[string]bool)
	for path := range server.listed {
		parts := strings.Split(path, "/") // "", "api", "v1", resource or "", "apis", group, version, resource
		group := ""
		if parts[1] == "apis" {
			group = parts[2]
		}
		listed[group+"/"+parts[len(parts)-1]] = true
	}
	for isWhole, permitted := range permitted {
		if diff := cmp.Diff(listed, permitted); diff != "" {
			t.Errorf("%s: %v (-listed +permitted):\n%s", whole, isWhole, diff)
		}
	}
}
