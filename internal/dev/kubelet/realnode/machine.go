// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// Where programs of a node find what is of kubelet and of CDI.
const (
	KubeletDir = "/var/lib/kubelet"
	CDIDir     = "/var/run/cdi"
)

// folders are those that each node has of its own: by their name in the node's folder, where programs of the node see them.
var folders = map[string]string{
	"kubelet":    KubeletDir,
	"cdi":        CDIDir,
	"run":        "/run/containerd",
	"cni":        "/var/lib/cni",
	"pods":       "/var/log/pods",
	"containers": "/var/log/containers",
}

// machine has namespaces of mounts and of processes. When its first process ends, the kernel ends all others and their mounts.
type machine struct {
	first *exec.Cmd
	in    io.Closer // the first process ends when it does, or we do
	pid   string    // of the first process
}

// newMachine makes the folders of a node and its cgroup, and starts what is process 1 there. That ignores the signal of ended
// children, so that the kernel forgets them.
func newMachine(folder, cgroup string) (*machine, error) {
	script := "set -e; mount --make-rshared /; "
	for name, path := range folders {
		for _, made := range []string{filepath.Join(folder, name), path} {
			if err := os.MkdirAll(made, 0o755); err != nil {
				return nil, err
			}
		}
		script += fmt.Sprintf("mount --bind '%s' '%s'; ", filepath.Join(folder, name), path)
	}
	for _, controller := range controllers() {
		if err := os.MkdirAll(filepath.Join(controller, cgroup), 0o755); err != nil {
			return nil, err
		}
	}
	m := &machine{first: exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script+"trap '' CHLD; exec cat")}
	m.first.Stderr = os.Stderr
	in, err := m.first.StdinPipe()
	if err != nil {
		return nil, err
	}
	m.in = in
	out, err := m.first.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.first.Start(); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(in, "ready\n"); err != nil {
		return nil, errors.Join(err, m.end())
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("make namespaces: %w", err), m.end())
	}
	if m.pid, err = child(m.first.Process.Pid); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// end ends all that runs on the machine, and waits for it.
func (m *machine) end() error {
	return errors.Join(m.in.Close(), m.first.Wait())
}

// child is the only child of a process.
func child(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return "", err
	}
	children := strings.Fields(string(text))
	if len(children) != 1 {
		return "", fmt.Errorf("process %d has the children %q, not one", pid, children)
	}
	return children[0], nil
}

// Program runs on a node. Its log is in the control plane's folder.
type Program struct {
	outer *controlplane.Program // waits for the program, which is its child
}

// Launch starts a program on the node, whose folders it sees.
func (n *Node) Launch(name, path string, arguments ...string) (*Program, error) {
	enter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, err
	}
	outer, err := n.plane.Launch(name, enter, n.machine.entering(append([]string{path}, arguments...))...)
	if err != nil {
		return nil, err
	}
	return &Program{outer}, nil
}

func (m *machine) entering(command []string) []string {
	return append([]string{"--target", m.pid, "--mount", "--pid", "--"}, command...)
}

// Err is nil while the program runs.
func (p *Program) Err() error { return p.outer.Err() }

// Kill ends the program where it stands. What it started goes on.
func (p *Program) Kill() error { return p.end(syscall.SIGKILL) }

// Stop asks the program to end.
func (p *Program) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Program) end(signal syscall.Signal) error {
	for deadline := time.Now().Add(time.Minute); p.outer.Err() == nil; time.Sleep(20 * time.Millisecond) {
		inner, err := child(p.outer.PID())
		if err == nil && signal != 0 {
			pid, err := strconv.Atoi(inner)
			if err != nil {
				return err
			}
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
			signal = 0 // once
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("a program runs a minute after it was to end"), err, p.outer.Kill())
		}
	}
	return nil
}

// controllers are where cgroups are: of cgroup v2 one folder, of v1 one for each controller.
func controllers() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		return []string{root}
	}
	found, _ := filepath.Glob(root + "/*/cgroup.procs") // the pattern is one
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// removeCgroups removes a cgroup of which no process is left, and all below.
func removeCgroups(cgroup string) error {
	var failures []error
	for _, controller := range controllers() {
		var inside []string
		err := filepath.WalkDir(filepath.Join(controller, cgroup), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				inside = append(inside, path)
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		failures = append(failures, err)
		slices.Reverse(inside)
		for _, path := range inside {
			failures = append(failures, os.Remove(path))
		}
	}
	return errors.Join(failures...)
}
