// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// startTimeout is how long containerd and kubelet may each take until they serve.
const startTimeout = 3 * time.Minute

// Options are what may differ from one node to the next.
type Options struct {
	// Name is the node's.
	Name string
	// Binaries is the folder of kubelet, containerd, containerd-shim-runc-v2 and ctr.
	Binaries string
	// Features are kubelet's gates. Those of controlplane.DeviceFeatures that kubelet knows are on, too.
	Features map[string]bool
}

// Node is a machine with containerd and kubelet. Both may be stopped and started.
type Node struct {
	name, binaries string
	folder         string // what the machine has of its own: see folders
	plane          *controlplane.ControlPlane
	client         kubernetes.Interface
	machine        *machine
	kubeconfig     string

	// Containerd and Kubelet are the programs that run, or ran last.
	Containerd, Kubelet *Program
}

// Start brings up a node of a control plane, and waits until it is ready. Stop must be called if there is no error.
func Start(ctx context.Context, plane *controlplane.ControlPlane, options Options) (_ *Node, failure error) {
	n := &Node{name: options.Name, plane: plane}
	var err error
	if n.binaries, err = filepath.Abs(options.Binaries); err != nil {
		return nil, err
	}
	if err := missing(n.binaries); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	if n.client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		return nil, err
	}
	if n.kubeconfig, err = plane.WriteIdentity("kubelet-"+n.name, "system:node:"+n.name, "system:nodes"); err != nil {
		return nil, err
	}
	if n.folder, err = os.MkdirTemp("", "node"); err != nil { // paths of sockets are short
		return nil, err
	}
	defer func() {
		if failure != nil {
			failure = errors.Join(fmt.Errorf("start node %s: %w", n.name, failure), n.Stop())
		}
	}()
	if err := n.write(options); err != nil {
		return nil, err
	}
	if n.machine, err = newMachine(n.folder, n.cgroup()); err != nil {
		return nil, err
	}
	if err := n.StartContainerd(ctx); err != nil {
		return nil, err
	}
	if err := n.importImages(ctx); err != nil {
		return nil, err
	}
	if err := n.StartKubelet(); err != nil {
		return nil, err
	}
	return n, n.AwaitReady(ctx)
}

// Stop ends all that runs on the node, containers included, and removes what the machine had. It may be called again.
func (n *Node) Stop() error {
	var failures []error
	if n.machine != nil {
		failures = append(failures, n.machine.end())
		n.machine = nil
	}
	return errors.Join(append(failures, removeCgroups(n.cgroup()), os.RemoveAll(n.folder))...)
}

// Name is the node's.
func (n *Node) Name() string { return n.name }

// Folder has what is at KubeletDir and CDIDir on the node, as "kubelet" and "cdi".
func (n *Node) Folder() string { return n.folder }

// cgroup is what kubelet has its cgroups in.
func (n *Node) cgroup() string { return "/dray-" + filepath.Base(n.folder) }

// StartContainerd starts containerd, and waits until it answers. Containers of one that ended go on.
func (n *Node) StartContainerd(ctx context.Context) error {
	var err error
	if n.Containerd, err = n.Launch("containerd-"+n.name, "env", "PATH="+n.binaries+":"+os.Getenv("PATH"), filepath.Join(n.binaries, "containerd"), "--config", n.file("containerd.toml")); err != nil {
		return err
	}
	return n.await(ctx, n.Containerd, "containerd answers", func(ctx context.Context) error {
		return n.ctr(ctx, "version")
	})
}

// StartKubelet starts kubelet, and does not wait.
func (n *Node) StartKubelet() error {
	var err error
	n.Kubelet, err = n.Launch("kubelet-"+n.name, filepath.Join(n.binaries, "kubelet"), "--config", n.file("kubelet.yaml"), "--hostname-override", n.name, "--kubeconfig", n.kubeconfig, "--v=3")
	return err
}

// AwaitReady waits until the API server has the node as ready, and a kubelet that was started after this call began to tell so.
func (n *Node) AwaitReady(ctx context.Context) error {
	began := time.Now().Add(-time.Second) // times of the API have seconds
	return n.await(ctx, n.Kubelet, "the node is ready", func(ctx context.Context) error {
		node, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && condition.LastHeartbeatTime.After(began) {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", node.Status.Conditions)
	})
}

// await waits for what a program has to do.
func (n *Node) await(ctx context.Context, program *Program, what string, done func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		if last = done(ctx); last == nil {
			return true, nil
		}
		return false, program.Err()
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w; logs are in %s", what, errors.Join(err, last), n.plane.Folder())
}

func (n *Node) file(name string) string { return filepath.Join(n.folder, name) }

// freePort is one that nobody listens at.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}
