// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dray-project/dray/agent/internal/demo"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/nodedriver"
)

const binaries = "../../../bin"

// keeper interrupts a demo that is kept, and notes whether its kubeconfig could be used.
type keeper struct {
	bytes.Buffer
	cancel  context.CancelFunc
	problem error
}

var exported = regexp.MustCompile(`export KUBECONFIG=(\S+)`)

func (k *keeper) Write(text []byte) (int, error) {
	if path := exported.FindSubmatch(text); path != nil {
		_, k.problem = clientcmd.BuildConfigFromFlags("", string(path[1]))
		k.cancel()
	}
	return k.Buffer.Write(text)
}

// TestDemo runs all of it, keeps it, and interrupts it then.
func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", shortdir.New(t)) // for sockets
	ctx, cancel := context.WithCancel(t.Context())
	out := &keeper{cancel: cancel}
	err := show(ctx, out, demo.Settings{Binaries: binaries, Keep: true})
	t.Log("\n" + out.String())
	if err != nil || out.problem != nil || ctx.Err() == nil {
		t.Errorf("error %v; kubeconfig: %v", err, out.problem)
	}
	for _, want := range []string{
		`(?m)^ +gpu.example.com +node-1 +node-1 +gpu-0 +free `,
		`process \d+ of trainer-\S+ has gpu-0\n +process \d+ of trainer-\S+ has gpu-1\n +process \d+ of trainer-\S+ has gpu-2\n`,
		`The 100 pods of crowd run on [1-5]?\d simulated nodes`,
		`taint gpu.example.com/unhealthy=DoubleBitEccError:NoExecute`,
		`runs elsewhere. It prints: process \d+ of trainer-\S+ has gpu-3\n`,
		`Nothing is left`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q was not printed", want)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestWhatIsLeft: each thing that may be left is found, and makes the demo fail.
func TestWhatIsLeft(t *testing.T) {
	held := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "held"}}
	held.Status.Allocation = &resourceapi.AllocationResult{}
	s := &stage{folder: t.TempDir(), timeout: time.Millisecond, Stage: &demo.Stage{Client: fake.NewClientset(held,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stuck"}})}}
	process := exec.Command("sleep", "600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = process.Process.Kill(), process.Wait() }()
	s.all = []trainer{{pod: "gone", process: process.Process.Pid}}
	ledger := nodedriver.LedgerPath(s.kubeletDir(), driver)
	for _, folder := range []string{s.cdiDir(), filepath.Dir(ledger), filepath.Join(s.kubeletDir(), "pods"), filepath.Join(s.kubeletDir(), "pod-logs")} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.cdiDir(), "claim.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	holds, err := inventory.OpenLedger(ledger)
	if err != nil {
		t.Fatal(err)
	}
	in := &inventory.Inventory{Devices: []inventory.Device{{ID: inventory.ID{Driver: driver, Pool: nodeName, Device: "gpu-0"}}}}
	for _, front := range inventory.Fronts {
		if err := holds.Rebuild(front, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := holds.Acquire(in, inventory.FrontDRA, "user", []inventory.ID{in.Devices[0].ID}); err != nil {
		t.Fatal(err)
	}
	err = s.showNothing(t.Context())
	for _, want := range []string{
		"5 things are left", "pod stuck", "claim held, which holds devices", "CDI file claim.json",
		"device gpu.example.com/node-1/gpu-0 of user in the driver's ledger", "process ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
