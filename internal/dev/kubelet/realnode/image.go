// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Images that a node has from the start. Nothing is pulled.
const (
	Image = "busybox:1" // the machine's busybox, with its applets in /bin
	pause = "dray.test/pause:1"
)

// importImages makes the images, and gives them to containerd.
func (n *Node) importImages(ctx context.Context) error {
	layer, err := busyboxLayer(ctx)
	if err != nil {
		return fmt.Errorf("make images of busybox: %w", err)
	}
	for name, command := range map[string][]string{Image: {"sh"}, pause: {"sleep", "inf"}} {
		if err := n.importImage(ctx, name, layer, map[string]any{"Env": []string{"PATH=/bin"}, "Cmd": command}); err != nil {
			return err
		}
	}
	return nil
}

// ImportProgram gives containerd an image that has one program, and runs it as root.
func (n *Node) ImportProgram(ctx context.Context, name, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("make image %s: %w", name, err)
	}
	var out bytes.Buffer
	layer, path := tar.NewWriter(&out), "usr/local/bin/"+filepath.Base(program)
	if err := errors.Join(addFile(layer, path, 0o755, content), layer.Close()); err != nil {
		return fmt.Errorf("make image %s: %w", name, err)
	}
	return n.importImage(ctx, name, out.Bytes(), map[string]any{"User": "0:0", "Entrypoint": []string{"/" + path}})
}

// importImage gives containerd an image of one layer.
func (n *Node) importImage(ctx context.Context, name string, layer []byte, config map[string]any) error {
	path := n.file("image.tar")
	if err := writeWith(path, func(out io.Writer) error { return writeImage(out, name, layer, config) }); err != nil {
		return fmt.Errorf("make image %s: %w", name, err)
	}
	if err := n.ctr(ctx, "--namespace", "k8s.io", "images", "import", path); err != nil {
		return fmt.Errorf("import image %s: %w", name, err)
	}
	return os.Remove(path)
}

// ctr runs containerd's client on the node.
func (n *Node) ctr(ctx context.Context, arguments ...string) error {
	_, err := n.Run(ctx, append([]string{filepath.Join(n.binaries, "ctr"), "--address", "/run/containerd/containerd.sock"}, arguments...)...)
	return err
}

// Run runs a command on the node, and returns what it prints.
func (n *Node) Run(ctx context.Context, command ...string) (string, error) {
	run := exec.CommandContext(ctx, "nsenter", n.machine.entering(command)...)
	var out, said bytes.Buffer
	run.Stdout, run.Stderr = &out, &said
	if err := run.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// writeImage writes an archive as docker save does.
func writeImage(out io.Writer, name string, layer []byte, process map[string]any) error {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z", "config": process,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", layer}} {
		if err := addFile(archive, file.name, 0o644, file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// busyboxLayer is what images have in them.
func busyboxLayer(ctx context.Context) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	layer := tar.NewWriter(&out)
	for _, folder := range []string{"bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var"} {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}
		if folder == "tmp" {
			header.Mode = 0o1777
		}
		if err := layer.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	for _, applet := range strings.Fields(string(applets)) {
		if applet == "busybox" {
			continue
		}
		if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	for name, content := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", "etc/group": "root:x:0:\nnogroup:x:65534:\n",
	} {
		if err := addFile(layer, name, 0o644, []byte(content)); err != nil {
			return nil, err
		}
	}
	if err := addFile(layer, "bin/busybox", 0o755, program); err != nil {
		return nil, err
	}
	return out.Bytes(), layer.Close()
}

func addFile(archive *tar.Writer, name string, mode int64, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
