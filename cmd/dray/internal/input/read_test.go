package input

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func node(name string) string {
	return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + "}\n"
}

// folderOf writes files below a new folder.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func nodeNames(objects *Objects) []string {
	var names []string
	for _, node := range objects.Nodes {
		names = append(names, node.Name)
	}
	return names
}

func TestReadOrder(t *testing.T) {
	root := folderOf(t, map[string]string{
		"b.yaml":         node("b"),
		"a.yml":          node("a1") + "---\n" + node("a2"),
		"deep/er/c.json": `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}`,
		"README.md":      "not a manifest",
		"named.txt":      node("named"),
	})
	objects, err := Read([]string{Stdin, root, filepath.Join(root, "named.txt")}, strings.NewReader(node("stdin")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"stdin", "a1", "a2", "b", "c", "named"}
	if diff := cmp.Diff(want, nodeNames(objects)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	origin, found := objects.Origin("Node", "", "a2")
	if want := filepath.Join(root, "a.yml") + ": document 2 (line 4)"; !found || origin.String() != want {
		t.Errorf("origin of a2 is %q, want %q", origin, want)
	}
}

func TestReadDuplicate(t *testing.T) {
	root := folderOf(t, map[string]string{"a.yaml": node("n1"), "b.yaml": "---\n---\n" + node("n2") + "---\n" + node("n1")})
	_, err := Read([]string{root}, nil, Options{})
	want := filepath.Join(root, "b.yaml") + ": document 2 (line 6): Node n1: the same object was already read from " +
		filepath.Join(root, "a.yaml") + ": document 1 (line 1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestReadPaths(t *testing.T) {
	empty := folderOf(t, map[string]string{"README.md": "nothing"})
	for path, want := range map[string]string{
		empty:                           "folder has no .yaml, .yml, .json file",
		filepath.Join(empty, "no.yaml"): "no such file",
	} {
		if _, err := Read([]string{path}, nil, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestReadNamespace(t *testing.T) {
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: q, namespace: own}\n"
	objects, err := Read([]string{Stdin}, strings.NewReader(manifest), Options{Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"team", "own"} {
		if got := objects.Pods[i].Namespace; got != want {
			t.Errorf("pod %d is in namespace %q, want %q", i, got, want)
		}
	}
}

func TestReadValidates(t *testing.T) {
	options := Options{Validate: func(runtime.Object) []error { return []error{errors.New("metadata: too dull")} }}
	_, err := Read([]string{Stdin}, strings.NewReader(node("n1")), options)
	if want := "stdin: document 1 (line 1): Node n1: metadata: too dull"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
