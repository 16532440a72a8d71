// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestRelease(t *testing.T) {
	r := prepared(t)
	r.Key = newKey(t)
	if err := r.writeDist(); err != nil {
		t.Fatal(err)
	}
	compareArchives(t, r)
	compareImages(t, r)
	compareAgain(t, r)
	explain(t, r)
	verify(t, r)
	install(t, r)
}

// compareArchives wants programs that know their version, and all other files to agree about them.
func compareArchives(t *testing.T, r *release) {
	t.Helper()
	platform := r.Platforms[0]
	read := func(name string) []byte { return readDist(t, r, name) }
	for _, p := range r.programs() {
		files := unpack(t, read(r.archive(p, platform)))
		for _, name := range []string{
			p.name, "LICENSE", "README.md", "LICENSES.txt", "man/" + p.name + ".1",
			"completions/" + p.name + ".bash", "completions/" + p.name + ".ps1", "completions/_" + p.name, "completions/" + p.name + ".fish",
		} {
			if len(files[name]) == 0 {
				t.Errorf("the archive of %s has no %s", p.name, name)
			}
		}
		if licenses := string(files["LICENSES.txt"]); !strings.Contains(licenses, "k8s.io/api v0.") || !strings.Contains(licenses, "the Go standard library") || !strings.Contains(licenses, "Apache License") {
			t.Errorf("the licenses of %s are not all there", p.name)
		}
		bom := new(cyclonedx.BOM)
		if err := cyclonedx.NewBOMDecoder(bytes.NewReader(read(p.name+".cdx.json")), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return strings.HasPrefix(c.PackageURL, "pkg:golang/k8s.io/api@v0.") }) {
			t.Errorf("the SBOM of %s does not list k8s.io/api", p.name)
		}
	}
	dray := r.programs()[0]
	files := unpack(t, read(r.archive(dray, platform)))
	if !strings.Contains(string(files["man/dray-explain.1"]), ".SH EXAMPLE") {
		t.Error("the archive of dray has no manual page of explain with examples")
	}
	if string(files["kubectl_complete-dray"]) != "link to dray" {
		t.Error("kubectl does not find what completes the plugin")
	}
	sum, err := r.checksum(r.archive(dray, platform))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(read(checksumsFile)), sum+"  "+r.archive(dray, platform)+"\n") {
		t.Errorf("checksums.txt is %q", read(checksumsFile))
	}
	if manifest := string(read("dray.yaml")); !strings.Contains(manifest, "sha256: "+sum) || !strings.Contains(manifest, r.Version+"/"+r.archive(dray, platform)) {
		t.Errorf("the krew manifest is not about the archive:\n%s", manifest)
	}
	run(t, ".", "go", "tool", "validate-krew-manifest", "-skip-install", "-manifest", filepath.Join(r.dist(), "dray.yaml"))
	if !strings.HasPrefix(string(read("CHANGELOG.md")), "# Dray "+r.Version+"\n\n") {
		t.Errorf("the changelog begins otherwise:\n%.200s", read("CHANGELOG.md"))
	}
}

// explain goes from the archive to the first explanation, with no Go and with an empty home.
func explain(t *testing.T, r *release) {
	t.Helper()
	start, folder := time.Now(), t.TempDir()
	run(t, folder, "tar", "-xzf", filepath.Join(r.dist(), r.archive(r.programs()[0], r.Platforms[0])))
	command := exec.Command("./dray", "explain", "rank-3", "-n", "train", "-f", "examples/gpu-nic-pcie")
	command.Dir, command.Env = folder, []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	output, err := command.CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(string(output), "in use: 1 by train/rank-0") {
		t.Errorf("error %v\n%s", err, output)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the first explanation took %s", took)
	}
}

// compareImages wants images whose programs know their version, and charts.
func compareImages(t *testing.T, r *release) {
	t.Helper()
	for name, want := range map[string][]string{
		"dray":           {"version", "dray " + r.Version + ", commit " + r.commit},
		"dray-agent":     {"--version", "dray-agent " + r.Version + ", commit " + r.commit},
		"dray-scheduler": {"--version", "Kubernetes v1.37.2+dray." + r.Version},
	} {
		files := unpackTar(t, readDist(t, r, name+"_"+r.Version+"_image.oci.tar"))
		index := manifest(t, files, top(t, files, r.Version))
		if len(index.Manifests) != 1 || index.Manifests[0].Platform.OS+"/"+index.Manifests[0].Platform.Architecture != r.Platforms[0] {
			t.Fatalf("%s: images for %+v, want %v", name, index.Manifests, r.Platforms)
		}
		image := manifest(t, files, index.Manifests[0].Digest)
		program := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(program, unpack(t, blob(t, files, image.Layers[0].Digest))["usr/local/bin/"+name], 0o700); err != nil {
			t.Fatal(err)
		}
		if output := run(t, ".", program, want[0]); !strings.HasPrefix(output, want[1]) {
			t.Errorf("%s in its image says %q, want %q", name, output, want[1])
		}
	}
	version := strings.TrimPrefix(r.Version, "v")
	for _, name := range []string{"dray-agent", "dray-scheduler"} {
		files := unpackTar(t, readDist(t, r, name+"_"+r.Version+"_chart.oci.tar"))
		chart := manifest(t, files, top(t, files, version))
		packed := readDist(t, r, name+"-"+version+".tgz")
		if len(chart.Layers) != 1 || !bytes.Equal(blob(t, files, chart.Layers[0].Digest), packed) {
			t.Errorf("the artifact of chart %s does not have its package", name)
		}
		if text := string(unpack(t, packed)[name+"/Chart.yaml"]); !strings.Contains(text, "\nversion: "+version+"\n") {
			t.Errorf("Chart.yaml of %s is\n%s", name, text)
		}
	}
}

// ociManifest is what an index or a manifest has of others.
type ociManifest struct {
	Manifests []ociDescriptor
	Layers    []ociDescriptor
}

type ociDescriptor struct {
	Digest      string
	Annotations map[string]string
	Platform    struct{ OS, Architecture string }
}

// top is the digest of what a layout has by a tag.
func top(t *testing.T, files map[string][]byte, tag string) string {
	t.Helper()
	var index ociManifest
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != tag || len(files["oci-layout"]) == 0 {
		t.Fatalf("the layout has %+v, want one with the tag %s", index.Manifests, tag)
	}
	return index.Manifests[0].Digest
}

func manifest(t *testing.T, files map[string][]byte, digest string) ociManifest {
	t.Helper()
	var m ociManifest
	if err := json.Unmarshal(blob(t, files, digest), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// blob is content of a layout. Its digest is right.
func blob(t *testing.T, files map[string][]byte, digest string) []byte {
	t.Helper()
	content, found := files["blobs/"+strings.Replace(digest, ":", "/", 1)]
	if sum := sha256.Sum256(content); !found || "sha256:"+hex.EncodeToString(sum[:]) != digest {
		t.Fatalf("%s: it is there: %v; its content has another digest", digest, found)
	}
	return content
}

func readDist(t *testing.T, r *release, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dist(), name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// compareAgain makes the release again, and wants the same files.
func compareAgain(t *testing.T, first *release) {
	t.Helper()
	second := prepared(t)
	if err := second.writeDist(); err != nil {
		t.Fatal(err)
	}
	names, err := first.artifacts()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3+2*2+3+3+2 { // archives, charts, images, SBOMs; krew manifest and changelog
		t.Fatalf("the release has %q", names)
	}
	for _, name := range append(names, checksumsFile, provenanceFile) {
		a, errA := os.ReadFile(filepath.Join(first.dist(), name))
		b, errB := os.ReadFile(filepath.Join(second.dist(), name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs from one time to the next (%v, %v)", name, errA, errB)
		}
	}
}

// newKey is a file with a private key.
func newKey(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pem")
	run(t, ".", "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file)
	return file
}

// verify checks the signatures with another program.
func verify(t *testing.T, r *release) {
	t.Helper()
	folder := t.TempDir()
	public, signature := filepath.Join(folder, "public.pem"), filepath.Join(folder, "signature")
	run(t, ".", "openssl", "ec", "-in", r.Key, "-pubout", "-out", public)
	check := func(encoded, signed []byte) error {
		plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
		if err != nil {
			t.Fatal(err)
		}
		text := filepath.Join(folder, "text")
		if err := errors.Join(os.WriteFile(signature, plain, 0o600), os.WriteFile(text, signed, 0o600)); err != nil {
			t.Fatal(err)
		}
		return exec.Command("openssl", "dgst", "-sha256", "-verify", public, "-signature", signature, text).Run()
	}
	read := func(name string) []byte { return readDist(t, r, name) }
	checksums := read(checksumsFile)
	if err := check(read(checksumsFile+".sig"), checksums); err != nil {
		t.Errorf("the checksums: %v", err)
	}
	if err := check(read(checksumsFile+".sig"), append(checksums, '\n')); err == nil {
		t.Error("other checksums pass")
	}
	var envelope struct {
		PayloadType, Payload string
		Signatures           []struct{ Sig string }
	}
	if err := json.Unmarshal(read(provenanceFile+"l"), &envelope); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil || !bytes.Equal(payload, read(provenanceFile)) {
		t.Errorf("the envelope is not about the provenance (%v)", err)
	}
	// What is signed is described at https://github.com/secure-systems-lab/dsse.
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(payload), payload)
	if err := check([]byte(envelope.Signatures[0].Sig), signed); err != nil {
		t.Errorf("the provenance: %v", err)
	}
	if !strings.Contains(string(payload), r.commit) {
		t.Error("the provenance does not say which commit was built")
	}
}

// install has the script of the repository install the release.
func install(t *testing.T, r *release) {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix("/"+r.Version, http.FileServer(http.Dir(r.dist()))))
	defer server.Close()
	home := t.TempDir()
	script := func() (string, error) {
		command := exec.Command("sh", filepath.Join(r.Root, "install.sh"), r.Version)
		command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "DRAY_RELEASES=" + server.URL}
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if output, err := script(); err != nil || !strings.Contains(output, "is not in the PATH") {
		t.Errorf("install.sh: %v\n%s", err, output)
	}
	for _, name := range []string{"dray", "kubectl-dray"} {
		version, err := exec.Command(filepath.Join(home, ".local/bin", name), "version").Output()
		if err != nil || !strings.HasPrefix(string(version), "dray "+r.Version+", commit "+r.commit) {
			t.Errorf("%s says %q, error %v", name, version, err)
		}
	}
	archive := filepath.Join(r.dist(), r.archive(r.programs()[0], r.Platforms[0]))
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(archive, append(content, 0), 0o600), os.RemoveAll(filepath.Join(home, ".local"))); err != nil {
		t.Fatal(err)
	}
	if output, err := script(); err == nil || !strings.Contains(output, "another checksum") {
		t.Errorf("an archive that was changed: %v\n%s", err, output)
	}
	if _, err := os.Stat(filepath.Join(home, ".local")); err == nil {
		t.Error("an archive that was changed is installed")
	}
}

func TestSection(t *testing.T) {
	const text = "# Changes\n\n## Unreleased\n\nNothing.\n\n## 0.2.0 (2026-11-01)\n\n- two\n\n## 0.1.0\n\n- one\n"
	for title, want := range map[string]string{"Unreleased": "Nothing.", "0.2.0": "- two", "0.1.0": "- one", "0.1": "", "0.3.0": ""} {
		if got := section(text, title); got != want {
			t.Errorf("section(%q) = %q, want %q", title, got, want)
		}
	}
}

// A module without a license file must not be overlooked.
func TestLicensesAreMissed(t *testing.T) {
	if _, err := writeLicenses(map[string][]string{"example.com/x v1.0.0": nil}); err == nil || !strings.Contains(err.Error(), "example.com/x v1.0.0 has no license file") {
		t.Errorf("got %v", err)
	}
}

func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	return unpackTar(t, content)
}

func unpackTar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Linkname != "" {
			files[header.Name] = []byte("link to " + header.Linkname)
			continue
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

// A version or tree that cannot be released is refused with the reason.
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
