package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/modfile"
)

const root = "../.."

// prepared is a release of the repository as it is. The version depends on the content:
// the module cache believes that what it has of a version never changes.
func prepared(t *testing.T) *release {
	t.Helper()
	r := &release{Root: root, Out: filepath.Join(t.TempDir(), "release"), Uncommitted: true, Platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}, Version: "v0.0.0"}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	content := sha256.New()
	for _, m := range r.modules {
		for _, name := range m.files {
			file, err := os.Open(filepath.Join(r.Root, m.folder, name))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(content, m.folder, name)
			if _, err := io.Copy(content, file); err != nil {
				t.Fatal(err)
			}
			file.Close()
		}
	}
	r.Version = "v0.0.0-test." + hex.EncodeToString(content.Sum(nil))[:12]
	var err error
	if r.modules, err = r.findModules(); err != nil {
		t.Fatal(err)
	}
	return r
}

// Each published module can be used from outside the repository, with nothing replaced.
func TestConsumers(t *testing.T) {
	r := prepared(t)
	if err := r.writeProxy(); err != nil {
		t.Fatal(err)
	}
	if len(r.modules) < 2 {
		t.Fatalf("%d modules are published, want the root module and the scheduler's at least", len(r.modules))
	}
	for _, m := range r.modules {
		t.Run(m.folder, func(t *testing.T) {
			folder := t.TempDir()
			source := "package consumer\n\nimport (\n"
			for _, imported := range importable(t, r, m) {
				source += fmt.Sprintf("\t_ %q\n", imported)
			}
			for name, content := range map[string]string{
				"consumer.go": source + ")\n",
				"go.mod":      fmt.Sprintf("module example.com/consumer\n\ngo 1.26.0\n\nrequire %s %s\n", m.Path, r.Version),
			} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			goIn(t, r, folder, "mod", "tidy")
			goIn(t, r, folder, "build", "./...")
			for line := range strings.Lines(goIn(t, r, folder, "list", "-m", "-f", "{{.Path}} {{.Version}} {{.Replace}}", "all")) {
				fields := strings.Fields(line)
				if ours := isOneOf(fields[0], r.modules); ours && fields[1] != r.Version || !strings.HasSuffix(strings.TrimSpace(line), "<nil>") {
					t.Errorf("the consumer uses %s", line)
				}
			}
		})
	}
}

// importable are packages of a module: that at its root, or else those one level below.
func importable(t *testing.T, r *release, m *module) []string {
	t.Helper()
	folders := make(map[string]bool)
	for _, name := range m.files {
		folder := path.Dir(name)
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(folder, "/") || folder == "internal" || folders[folder] {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(r.Root, m.folder, name), nil, parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name.Name != "main" {
			folders[folder] = true
		}
	}
	if folders["."] {
		return []string{m.Path}
	}
	var packages []string
	for folder := range folders {
		packages = append(packages, m.Path+"/"+folder)
	}
	slices.Sort(packages)
	if len(packages) == 0 {
		t.Fatalf("module %s has no package to import", m.Path)
	}
	return packages
}

// goIn runs the Go command with the release in front of the usual module proxies.
func goIn(t *testing.T, r *release, folder string, arguments ...string) string {
	t.Helper()
	proxies, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", arguments...)
	command.Dir = folder
	command.Env = append(command.Environ(), "GOPROXY=file://"+filepath.Join(r.Out, "proxy")+","+strings.TrimSpace(string(proxies)),
		"GONOSUMDB=github.com/dray-project/*", "GONOPROXY=none", "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "CGO_ENABLED=0")
	output, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, failed.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// An archive has a command line that knows its version, and everything about it agrees.
func TestArchives(t *testing.T) {
	r := prepared(t)
	for _, step := range []func() error{r.writeArchives, r.writeChecksums, r.writeSBOM, r.writeKrew, r.writeChangelog} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	platform := r.Platforms[0]
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(r.dist(), name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	archive := read(r.archive(platform))
	files := unpack(t, archive)
	for _, name := range []string{"dray", "LICENSE", "README.md", "man/dray-explain.1", "completions/dray.bash"} {
		if len(files[name]) == 0 {
			t.Errorf("the archive has no %s", name)
		}
	}
	binary := filepath.Join(t.TempDir(), "dray")
	if err := os.WriteFile(binary, files["dray"], 0o755); err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(binary, "version").Output()
	if err != nil || !strings.HasPrefix(string(version), "dray "+r.Version+", commit "+r.commit) {
		t.Errorf("the command line says %q, error %v", version, err)
	}
	sum := sha256.Sum256(archive)
	text := hex.EncodeToString(sum[:])
	if want := text + "  " + r.archive(platform) + "\n"; string(read("checksums.txt")) != want {
		t.Errorf("checksums.txt is %q, want %q", read("checksums.txt"), want)
	}
	if manifest := string(read("dray.krew.yaml")); !strings.Contains(manifest, "sha256: "+text) || !strings.Contains(manifest, r.Version+"/"+r.archive(platform)) {
		t.Errorf("the krew manifest is not about the archive:\n%s", manifest)
	}
	if !strings.HasPrefix(string(read("CHANGELOG")), "# Dray "+r.Version) {
		t.Errorf("the changelog begins otherwise:\n%.200s", read("CHANGELOG"))
	}
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(read("sbom.cdx.json")), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return strings.HasPrefix(c.PackageURL, "pkg:golang/k8s.io/api@v0.") }) {
		t.Error("the SBOM does not list k8s.io/api")
	}
	if err := r.writeArchives(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(archive, read(r.archive(platform))) {
		t.Error("the archive differs from one time to the next")
	}
}

func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// The tags of the nested modules are on a commit whose go.mod files require the release and
// replace nothing; the branch is left as it was.
func TestTags(t *testing.T) {
	r := prepared(t)
	if err := r.writeProxy(); err != nil {
		t.Fatal(err)
	}
	if err := r.writeTags(); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, ".", "git", "clone", "-q", "--no-local", r.Root, clone)
	run(t, clone, filepath.Join(r.Out, "tag.sh"))
	if changes := run(t, clone, "git", "status", "--porcelain"); changes != "" {
		t.Errorf("the checkout has changes:\n%s", changes)
	}
	if head := strings.TrimSpace(run(t, clone, "git", "rev-parse", "HEAD")); head != r.commit {
		t.Errorf("the branch is at %s, was at %s", head, r.commit)
	}
	for _, m := range r.modules {
		content := run(t, clone, "git", "show", m.tag()+":"+path.Join(m.folder, "go.mod"))
		file, err := modfile.Parse("go.mod", []byte(content), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(file.Replace) > 0 {
			t.Errorf("%s replaces modules", m.tag())
		}
		for _, require := range file.Require {
			if isOneOf(require.Mod.Path, r.modules) && require.Mod.Version != r.Version {
				t.Errorf("%s requires %s", m.tag(), require.Mod)
			}
		}
	}
}

func run(t *testing.T, folder, name string, arguments ...string) string {
	t.Helper()
	command := exec.Command(name, arguments...)
	command.Dir = folder
	command.Env = append(command.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

// What cannot be released is refused with the reason.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		release release
		want    string
	}{
		"no version":     {release{Out: filepath.Join(t.TempDir(), "new")}, "want a semantic version"},
		"no v":           {release{Version: "0.1.0", Out: filepath.Join(t.TempDir(), "new")}, "want a semantic version"},
		"existing":       {release{Version: "v0.1.0", Out: t.TempDir()}, "remove it first"},
		"not a checkout": {release{Version: "v0.1.0", Root: t.TempDir(), Out: filepath.Join(t.TempDir(), "new")}, "git rev-parse HEAD"},
	} {
		if err := test.release.run(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// A replaced module that is not ours would be lost on users.
func TestForeignReplace(t *testing.T) {
	m := &module{folder: "x", gomod: []byte("module example.com/x\n\ngo 1.26\n\nreplace example.com/other => ../other\n")}
	m.Path = "example.com/x"
	if err := (&release{Version: "v0.1.0"}).requireEachOther([]*module{m}); err == nil || !strings.Contains(err.Error(), "x/go.mod replaces example.com/other") {
		t.Errorf("got %v", err)
	}
}
