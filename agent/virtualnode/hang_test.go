// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/fakedriver"
)

// stuckFolder is set in the environment of a driver that is stopped: where its socket is.
const stuckFolder = "DRAY_VIRTUALNODE_TEST_DRIVER"

const stuck = "stuck.example.com"

// serveStuck is the main function of that driver. It prints what it is asked, and ends with its
// input.
func serveStuck() int {
	_, err := fakedriver.Start(os.Getenv(stuckFolder), stuck, func(d *fakedriver.Driver) {
		d.During = func(call, at string) { fmt.Println(at, call) }
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// stuckDriver is a driver in a process of its own, which a signal stops.
type stuckDriver struct {
	*exec.Cmd
	calls chan string
}

func startStuck(t *testing.T, folder string) *stuckDriver {
	t.Helper()
	d := &stuckDriver{exec.Command("/proc/self/exe"), make(chan string, 1000)}
	d.Env, d.Stderr = append(os.Environ(), stuckFolder+"="+folder), os.Stderr
	input, err := d.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			d.calls <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		d.signal(t, syscall.SIGCONT)
		_ = input.Close()
		<-read
		_ = d.Wait()
	})
	return d
}

func (d *stuckDriver) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := d.Process.Signal(signal); err != nil {
		t.Error(err)
	}
}

// await waits for a call of the driver.
func (d *stuckDriver) await(t *testing.T, want string) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case call := <-d.calls:
			if strings.HasPrefix(call, want) {
				return
			}
		case <-deadline:
			t.Fatalf("the driver was not called: %s", want)
		}
	}
}

// TestAStoppedDriver holds up the pods that need it, and no other one: neither those that
// begin nor those that end. Calls of drivers have 45 s.
func TestAStoppedDriver(t *testing.T) {
	const count = 3 * workers
	m := newMachine(t, claim("ends", "ends"), pod("ends", "ends"))
	driver := startStuck(t, RegistrationDir(m.folder))
	add := func(name string, drivers ...string) {
		t.Helper()
		var claims []string
		for _, driver := range drivers {
			c := claim(name, name)
			c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Request: "a", Driver: driver, Pool: "p", Device: name}}
			if err := m.client.Tracker().Add(c); err != nil {
				t.Fatal(err)
			}
			claims = append(claims, name)
		}
		if _, err := m.client.CoreV1().Pods("ns").Create(t.Context(), pod(name, claims...), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "ends", corev1.PodRunning)
	for i := range count {
		add(fmt.Sprint("old-", i), stuck)
	}
	for i := range count {
		m.awaitPhase(t, fmt.Sprint("old-", i), corev1.PodRunning)
	}
	driver.signal(t, syscall.SIGSTOP)
	began := time.Now()
	for i := range count {
		add(fmt.Sprint("new-", i), stuck)
		known, err := p.get(fmt.Sprint("old-", i))
		if err != nil {
			t.Fatal(err)
		}
		p.report(known, corev1.PodSucceeded)
	}
	add("free")
	add("other", gpus)
	known, err := p.get("ends")
	if err != nil {
		t.Fatal(err)
	}
	p.report(known, corev1.PodSucceeded)
	for name, phase := range map[string]corev1.PodPhase{"free": corev1.PodRunning, "other": corev1.PodRunning, "ends": corev1.PodSucceeded} {
		m.awaitPhase(t, name, phase)
	}
	if took := time.Since(began); took > callPatience {
		t.Errorf("pods that do not need the stopped driver took %v", took)
	}
	for i := range count {
		if phase := m.phase(t, fmt.Sprint("new-", i)); phase != corev1.PodPending {
			t.Errorf("new-%d is %s, and its driver does not answer", i, phase)
		}
		if phase := m.phase(t, fmt.Sprint("old-", i)); phase != corev1.PodRunning {
			t.Errorf("old-%d is %s, and its claim is prepared", i, phase)
		}
	}
	driver.signal(t, syscall.SIGCONT)
	for i := range count {
		m.awaitPhase(t, fmt.Sprint("new-", i), corev1.PodRunning)
		m.awaitPhase(t, fmt.Sprint("old-", i), corev1.PodSucceeded)
	}
	if took := time.Since(began); took > callPatience {
		t.Errorf("the driver that goes on was not heard for %v", took)
	}
}

// callPatience is well below the time that a call of a driver has.
const callPatience = 30 * time.Second

// TestAPodThatIsDeletedWhileItsDriverIsStopped is released when the driver has answered.
func TestAPodThatIsDeletedWhileItsDriverIsStopped(t *testing.T) {
	first, c := claim("first", "first"), claim("one", "a")
	first.Status.Allocation.Devices.Results[0].Driver, c.Status.Allocation.Devices.Results[0].Driver = stuck, stuck
	m := newMachine(t, first, c, pod("first", "first"))
	driver := startStuck(t, RegistrationDir(m.folder))
	p := &pods{}
	m.run(t, p)
	m.awaitPhase(t, "first", corev1.PodRunning) // the driver is registered
	driver.signal(t, syscall.SIGSTOP)
	if _, err := m.client.CoreV1().Pods("ns").Create(t.Context(), pod("a", "one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fakecluster.Eventually(t, "the call goes on in the background", func() bool {
		provider := m.node.provider
		provider.mu.Lock()
		defer provider.mu.Unlock()
		call := provider.driverCalls["a"]
		return call != nil && call.late
	})
	if err := m.client.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The node hears of both in order: when the next one runs, it knows that the first one is gone.
	if _, err := m.client.CoreV1().Pods("ns").Create(t.Context(), pod("next"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitPhase(t, "next", corev1.PodRunning)
	driver.signal(t, syscall.SIGCONT)
	driver.await(t, "after prepare one")
	driver.await(t, "after unprepare one")
	if slices.ContainsFunc(p.creations(), func(created string) bool { return strings.HasPrefix(created, "a ") }) {
		t.Errorf("created %v", p.creations())
	}
}
