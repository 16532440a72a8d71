// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// consumerPackages are what somebody links who wants the library and nothing
// of a cluster.
var consumerPackages = []string{"allocator", "pools", "cel", "alloctest"}

// TestConsumer builds a module that imports the library, and looks at what it
// inherits by that.
func TestConsumer(t *testing.T) {
	folder := consumer(t)
	runGo(t, folder, "mod", "edit", "-require", Module+"@v0.0.0", "-replace", Module+"="+absolute(t, root))
	runGo(t, folder, "build", "./...")
	modules := runGo(t, folder, "list", "-m", "all")
	if !strings.Contains(modules, Module+" v0.0.0 =>") {
		t.Errorf("the module does not use the checkout:\n%s", modules)
	}
	for module := range strings.Lines(modules) {
		if strings.HasPrefix(module, "k8s.io/kubernetes ") || strings.Contains(module, "golangci") {
			t.Errorf("users of the library inherit %s", module)
		}
	}
	for linked := range strings.Lines(runGo(t, folder, "list", "-deps", "./...")) {
		if offence := inherited(strings.TrimSpace(linked)); offence != "" {
			t.Errorf("users of the library link %s", offence)
		}
	}
}

// inherited is the package itself if it is one that only edges may import.
func inherited(linked string) string {
	for _, unwanted := range []string{"k8s.io/kubernetes", "k8s.io/dynamic-resource-allocation", "k8s.io/client-go", "k8s.io/cli-runtime"} {
		if within(linked, unwanted) {
			return linked
		}
	}
	return ""
}

func TestInherited(t *testing.T) {
	if inherited("k8s.io/kubernetes/pkg/scheduler") == "" || inherited("k8s.io/dynamic-resource-allocation/cel") == "" {
		t.Error("unwanted packages pass")
	}
	if linked := inherited("k8s.io/api/resource/v1"); linked != "" {
		t.Errorf("%s is refused", linked)
	}
}

// consumer is a module with one package that imports the library.
func consumer(t *testing.T) string {
	t.Helper()
	var source strings.Builder
	source.WriteString("package consumer\n\nimport (\n")
	for _, imported := range consumerPackages {
		source.WriteString("\t_ \"" + Module + "/" + imported + "\"\n")
	}
	source.WriteString(")\n")
	return consumerOf(t, source.String())
}

// consumerOf is a module of one file.
func consumerOf(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "consumer.go"), source)
	write(t, filepath.Join(folder, "go.mod"), "module example.com/consumer\n\n"+goVersion(t))
	// The checksums are those of the checkout, so that none has to be fetched.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "go.sum"), string(sums))
	return folder
}

// goVersion is the go line of the checkout's go.mod.
func goVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "go ") {
			return line
		}
	}
	t.Fatal("go.mod has no go line")
	return ""
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runGo returns what a go command writes to its standard output.
func runGo(t *testing.T, folder string, args ...string) string {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off")
	var failure strings.Builder
	command.Stderr = &failure
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, failure.String())
	}
	return string(printed)
}
