// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/inventory"
)

func TestPrepare(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0", "gpu-1"), claim("two", "gpu-1"), claim("gone", "gpu-9"))
	if got := n.prepare(t, "one"); !strings.Contains(got.Error, "not known yet") {
		t.Errorf("before the first update: %v", got)
	}
	n.driver.Update(devices("gpu-0", "gpu-1"))

	first := n.prepare(t, "one")
	if first.Error != "" || len(first.Devices) != 2 || first.Devices[1].DeviceName != "gpu-1" || first.Devices[1].PoolName != nodeName ||
		!slices.Equal(first.Devices[1].RequestNames, []string{"request-b"}) || !slices.Equal(first.Devices[1].CdiDeviceIds, []string{"gpu.example.com/claim=one-gpu-1"}) {
		t.Errorf("prepared %v", first)
	}
	want := []string{"gpu.example.com/claim=one-gpu-0: GPU=gpu-0", "gpu.example.com/claim=one-gpu-1: GPU=gpu-1"}
	if got := n.cdiDevices(t); !slices.Equal(got, want) {
		t.Errorf("CDI devices %q, want %q", got, want)
	}
	if again := n.prepare(t, "one"); again.String() != first.String() || !slices.Equal(n.cdiDevices(t), want) {
		t.Errorf("prepared again: %v, before: %v", again, first)
	}

	if got := n.prepare(t, "two"); !strings.Contains(got.Error, "claim ns/two: device gpu.example.com/node-1/gpu-1: in use by dra one") {
		t.Errorf("a device of another claim: %v", got)
	}
	if got := n.prepare(t, "gone"); !strings.Contains(got.Error, "device gpu.example.com/node-1/gpu-9: not on this node") {
		t.Errorf("a device that is not there: %v", got)
	}
	if got := n.cdiDevices(t); !slices.Equal(got, want) {
		t.Errorf("CDI devices %q after failures, want %q", got, want)
	}

	for range 2 {
		if got := n.unprepare(t); got != "" || len(n.cdiDevices(t)) > 0 || len(n.ledger.Holds()) > 0 {
			t.Errorf("unprepared: %q, left %q and %v", got, n.cdiDevices(t), n.ledger.Holds())
		}
	}
	if got := n.prepare(t, "two"); got.Error != "" {
		t.Errorf("a device that is free again: %v", got)
	}
}

// TestRestart: a claim stays prepared over a restart, even if its device went.
func TestRestart(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"), claim("two", "gpu-0"))
	n.driver.Update(devices("gpu-0"))
	first := n.prepare(t, "one")
	n.driver.Stop()
	n.start(t)
	n.driver.Update(devices("gpu-1"))
	if again := n.prepare(t, "one"); again.Error != "" || again.String() != first.String() {
		t.Errorf("prepared %v, before: %v", again, first)
	}
	n.driver.Update(devices("gpu-0"))
	if got := n.prepare(t, "two"); !strings.Contains(got.Error, "in use by dra one") {
		t.Errorf("another claim: %v", got)
	}
	if got := n.unprepare(t); got != "" || len(n.cdiDevices(t)) > 0 {
		t.Errorf("unprepared: %q, left %q", got, n.cdiDevices(t))
	}
}

// TestPreparedAgainAfterReboot has the CDI file of a prepared claim be lost, be damaged, and be older than the
// device nodes. A claim whose device went keeps what it got.
func TestPreparedAgainAfterReboot(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0", "gpu-1"))
	n.driver.Update(devices("gpu-0", "gpu-1"))
	first := n.prepare(t, "one")
	path := filepath.Join(n.dir, "cdi", "gpu.example.com_one.json")
	expect := func(when string, want ...string) {
		t.Helper()
		if again := n.prepare(t, "one"); again.Error != "" || again.String() != first.String() {
			t.Errorf("%s: prepared %v, before: %v", when, again, first)
		}
		if got := n.cdiDevices(t); !slices.Equal(got, want) {
			t.Errorf("%s: CDI devices %q, want %q", when, got, want)
		}
	}
	const zero, one = "gpu.example.com/claim=one-gpu-0: GPU=", "gpu.example.com/claim=one-gpu-1: GPU="
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("without the file", zero+"gpu-0", one+"gpu-1")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("with an empty file", zero+"gpu-0", one+"gpu-1")
	other := devices("gpu-0", "gpu-1")
	other.Devices[0].Edits.Env = []string{"GPU=other"}
	n.driver.Update(other)
	expect("with another device node", zero+"other", one+"gpu-1")
	n.driver.Update(devices("gpu-0"))
	expect("without a device", zero+"other", one+"gpu-1")
	n.driver.Stop()
	n.start(t)
	expect("before the devices are known", zero+"other", one+"gpu-1")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o750)); err != nil {
		t.Fatal(err)
	}
	n.driver.Update(devices("gpu-0", "gpu-1"))
	if got := n.prepare(t, "one"); !strings.Contains(got.Error, "claim ns/one: write CDI file of one") {
		t.Errorf("with a folder in the file's place: %v", got)
	}
}

// TestDeviceOfSeveralRequests has a claim that got one device for two requests, as it may with admin access: runtimes refuse
// a CDI file that has one device twice.
func TestDeviceOfSeveralRequests(t *testing.T) {
	twice := claim("one", "gpu-0", "gpu-0")
	for i := range twice.Status.Allocation.Devices.Results {
		twice.Status.Allocation.Devices.Results[i].AdminAccess = ptr.To(true)
	}
	n := newNode(t, twice)
	n.driver.Update(devices("gpu-0"))
	if got := n.prepare(t, "one"); got.Error != "" || len(got.Devices) != 2 {
		t.Fatalf("prepared %v", got)
	}
	if got := n.cdiDevices(t); len(got) != 1 || !strings.HasSuffix(got[0], ": GPU=gpu-0") {
		t.Errorf("the runtime finds %v", got)
	}
}

// TestSameNameInTwoPools: a claim with a device of each gets both. The ledger can be rebuilt from the file.
func TestSameNameInTwoPools(t *testing.T) {
	both := claim("one", "gpu-0", "gpu-0")
	both.Status.Allocation.Devices.Results[1].Pool = "chassis/2"
	in := devices("gpu-0", "gpu-0")
	in.Devices[1].Pool, in.Devices[1].Edits.Env = "chassis/2", []string{"GPU=another"}
	n := newNode(t, both)
	n.driver.Update(in)
	got := n.prepare(t, "one")
	if got.Error != "" || len(got.Devices) != 2 {
		t.Fatalf("prepared %v", got)
	}
	const first, second = "gpu.example.com/claim=one-node-1:gpu-0", "gpu.example.com/claim=one-chassis_2:gpu-0"
	if ids := slices.Concat(got.Devices[0].CdiDeviceIds, got.Devices[1].CdiDeviceIds); !slices.Equal(ids, []string{first, second}) {
		t.Errorf("kubelet gets %q", ids)
	}
	if found := n.cdiDevices(t); !slices.Equal(found, []string{first + ": GPU=gpu-0", second + ": GPU=another"}) {
		t.Errorf("the runtime finds %q", found)
	}
	holds, err := HoldsOfClaims(in, driverName, filepath.Join(n.dir, "cdi"), nil)
	if err != nil || len(holds) != 2 || holds[0].Device != in.Devices[0].ID || holds[1].Device != in.Devices[1].ID {
		t.Errorf("holds %v (%v)", holds, err)
	}
}

// TestConflictIsNotPreparedAgain: a claim whose device a container has, too, is not answered as before.
func TestConflictIsNotPreparedAgain(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"))
	in := devices("gpu-0")
	n.driver.Update(in)
	if got := n.prepare(t, "one"); got.Error != "" {
		t.Fatal(got.Error)
	}
	other := inventory.Hold{Device: in.Devices[0].ID, Front: inventory.FrontDevicePlugin, User: "container"}
	if err := n.ledger.Update(func(holds []inventory.Hold) []inventory.Hold { return append(holds, other) }); err != nil {
		t.Fatal(err)
	}
	if got := n.prepare(t, "one"); !strings.Contains(got.Error, "in use by device-plugin container") {
		t.Errorf("answer %v", got)
	}
	if err := n.ledger.Release(inventory.FrontDevicePlugin, "container"); err != nil {
		t.Fatal(err)
	}
	if got := n.prepare(t, "one"); got.Error != "" {
		t.Error(got.Error)
	}
}

// TestDriverNamedByDigit: CDI wants the names of vendors to begin with a letter, and those of drivers may begin with a digit.
func TestDriverNamedByDigit(t *testing.T) {
	const name = "4g.example.com"
	in := devices("gpu-0")
	in.Devices[0].Driver = name
	files, err := cdi.Open(t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{options: Options{DriverName: name}, files: files}
	results := []resourceapi.DeviceRequestAllocationResult{{Request: "a", Driver: name, Pool: in.Devices[0].Pool, Device: "gpu-0"}}
	spec, err := d.spec(in, "one", results)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Write("one", spec); err != nil {
		t.Error(err)
	}
	if got, want := d.answer("one", results[0], results).CDIDeviceIDs, cdi.QualifiedNames(spec); !slices.Equal(got, want) || want[0] != "dra_4g.example.com/claim=one-gpu-0" {
		t.Errorf("kubelet gets %q, the file has %q", got, want)
	}
}
