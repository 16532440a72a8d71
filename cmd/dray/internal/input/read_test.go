// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

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
	labelled := "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {a: b}}\n"
	root := folderOf(t, map[string]string{"a.yaml": node("n1"), "b.yaml": "---\n---\n" + node("n2") + "---\n" + labelled})
	_, err := Read([]string{root}, nil, Options{})
	want := filepath.Join(root, "b.yaml") + ": document 2 (line 6): Node n1: another object of that name was already read from " +
		filepath.Join(root, "a.yaml") + ": document 1 (line 1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Copies of an object count once, however they are written.
func TestReadCopies(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2, template: {spec: {containers: [{name: c, image: x}]}}}\n"
	root := folderOf(t, map[string]string{
		"a.yaml": node("n1") + "---\n" + deployment,
		"b.yaml": deployment + "---\n" + node("n2"),
		"c.json": `{"kind": "Node", "metadata": {"labels": {}, "name": "n1"}, "apiVersion": "v1"}`,
	})
	objects, err := Read([]string{root}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"n1", "n2"}, nodeNames(objects)); diff != "" || len(objects.Controllers) != 1 || len(objects.Warnings) > 0 {
		t.Errorf("%d controllers, warnings %v, nodes (-want +got):\n%s", len(objects.Controllers), objects.Warnings, diff)
	}
}

// Files of other programs in a folder are skipped. A file that is named must have objects.
func TestReadFilesOfOthers(t *testing.T) {
	root := folderOf(t, map[string]string{
		"node.yaml":          node("n1"),
		"values.yaml":        "replicas: 3\n---\n" + node("n2"),
		"Chart.yaml":         "apiVersion: v2\nname: chart\n",
		"kustomization.yaml": "resources: [node.yaml]\n",
	})
	objects, err := Read([]string{root}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"n1", "n2"}, nodeNames(objects)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	var got []string
	for _, warning := range objects.Warnings {
		got = append(got, strings.TrimPrefix(warning.Error(), root+"/"))
	}
	const over = ": document 1 (line 1): passed over: neither kind nor metadata, so this is no Kubernetes object"
	if diff := cmp.Diff([]string{"Chart.yaml" + over, "kustomization.yaml" + over + " (-k builds the kustomization)", "values.yaml" + over}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"values.yaml": "apiVersion: required", "Chart.yaml": "kind: required"} {
		if _, err := Read([]string{filepath.Join(root, name)}, nil, Options{}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s by name: got %v, want %q", name, err, want)
		}
	}
	// A mistake is one in a folder, too.
	slip := folderOf(t, map[string]string{"node.yaml": "apiVersion: v1\nmetadata: {name: n1}\n"})
	if _, err := Read([]string{slip}, nil, Options{}); err == nil || !strings.HasSuffix(err.Error(), "kind: required") {
		t.Errorf("without a kind: got %v", err)
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

// A binary file is no template, whatever bytes it has.
func TestReadBinary(t *testing.T) {
	_, err := Read([]string{Stdin}, strings.NewReader("\x00\xff{{ .Values }}\n\xfe: ["), Options{})
	if want := "stdin: document 1 (line 1): not UTF-8 text"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// PowerShell on Windows writes UTF-16, with a byte order mark.
func TestReadUTF16(t *testing.T) {
	text := node("ä") + "---\r\n" + node("b")
	for order, name := range map[binary.AppendByteOrder]string{binary.LittleEndian: "little", binary.BigEndian: "big"} {
		content := order.AppendUint16(nil, 0xfeff)
		for _, unit := range utf16.Encode([]rune(text)) {
			content = order.AppendUint16(content, unit)
		}
		objects, err := Read([]string{Stdin}, bytes.NewReader(content), Options{})
		if err != nil {
			t.Fatalf("%s endian: %v", name, err)
		}
		if diff := cmp.Diff([]string{"ä", "b"}, nodeNames(objects)); diff != "" {
			t.Errorf("%s endian: nodes (-want +got):\n%s", name, diff)
		}
	}
}

// What kubectl takes for a separator is one: with a tab behind it, or with the byte order mark of the next file.
func TestReadSeparators(t *testing.T) {
	for _, separator := range []string{"---\n", "---\t\n", "--- \t # next\n", "---\r\n\xef\xbb\xbf", "---\n\n\xef\xbb\xbf"} {
		objects, err := Read([]string{Stdin}, strings.NewReader(node("a")+separator+node("b")), Options{})
		if err != nil {
			t.Errorf("%q: %v", separator, err)
			continue
		}
		if diff := cmp.Diff([]string{"a", "b"}, nodeNames(objects)); diff != "" {
			t.Errorf("%q: nodes (-want +got):\n%s", separator, diff)
		}
	}
}

// Templates leave documents behind that are null. kubectl passes over them, too.
func TestReadNull(t *testing.T) {
	objects, err := Read([]string{Stdin}, strings.NewReader("null\n---\n"+node("a")+"---\n# Source: x.yaml\n~\n---\n"+node("b")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, nodeNames(objects)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// A link to a folder is that folder.
func TestReadLinkedFolder(t *testing.T) {
	root := folderOf(t, map[string]string{"real/a.yaml": node("a")})
	link := filepath.Join(root, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	objects, err := Read([]string{link}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if origin, _ := objects.Origin("Node", "", "a"); origin.File != filepath.Join(link, "a.yaml") {
		t.Errorf("read from %s", origin.File)
	}
}

// Of a field that occurs twice, kubectl takes the last one without a word.
func TestReadFieldTwice(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nmetadata: {name: b}\n"
	const twice = `stdin: document 1 (line 1): yaml: line 4: key "metadata" already set in map`
	for findings, want := range map[Findings]string{FindingsFail: "", FindingsWarn: twice + ": the last one counts", FindingsIgnore: ""} {
		objects, err := Read([]string{Stdin}, strings.NewReader(manifest), Options{Findings: findings})
		if findings == FindingsFail {
			if err == nil || err.Error() != twice {
				t.Errorf("got %v, want %s", err, twice)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		warning := errors.Join(objects.Warnings...)
		if diff := cmp.Diff([]string{"b"}, nodeNames(objects)); diff != "" || (want == "") != (warning == nil) || want != "" && warning.Error() != want {
			t.Errorf("%s: warning %v, want %q, nodes (-want +got):\n%s", findings, warning, want, diff)
		}
	}
}
