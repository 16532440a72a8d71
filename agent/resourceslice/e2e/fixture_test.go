// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/resourceslice"
	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/faults"
)

const (
	binaries = "../../../bin"
	// patience is for machines that have other things to do.
	patience = 5 * time.Minute
)

// onSlices is the path of requests about ResourceSlices.
var onSlices = regexp.MustCompile("/resourceslices")

// What all tests share. Each has a driver of its own.
var (
	plane  *controlplane.ControlPlane
	client kubernetes.Interface // the test's, past the proxy
)

func TestMain(m *testing.M) { leakcheck.Main(suite{m}) }

// suite runs the tests on a control plane.
type suite struct{ tests *testing.M }

// Run returns what to exit with.
func (s suite) Run() (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	programs, err := controlplane.BinariesIn(binaries)
	if err != nil {
		return fail(fmt.Errorf("%w; run make controlplane first", err))
	}
	plane, err = controlplane.Start(context.Background(), controlplane.Options{
		Binaries: programs, Scheduler: controlplane.Dray,
		// The API server drops the fields of these.
		Features: map[string]bool{"DRAPartitionableDevicesType": false, "DRAOptionalNodeOperations": false},
	})
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			code = fail(err)
		}
	}()
	if client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		return fail(err)
	}
	return s.tests.Run()
}

// publisher is a controller behind a proxy, and what it was told.
type publisher struct {
	*resourceslice.Controller
	driver string
	proxy  *faults.Proxy

	mutex  sync.Mutex
	errors []error
}

// publish starts a controller of a driver that is named after the test.
func publish(t *testing.T) *publisher {
	t.Helper()
	return publishFor(t, "")
}

// publishFor is publish with a node as owner, unless it is empty.
func publishFor(t *testing.T, node string) *publisher {
	t.Helper()
	serving, err := plane.ServingCertificate()
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{driver: driverOf(t)}
	if p.proxy, err = faults.Start(plane.Config(), serving); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.proxy.Close() })
	config := rest.CopyConfig(plane.Config())
	config.Host = p.proxy.URL()
	through, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := resourceslice.Options{
		DriverName: p.driver, KubeClient: through, ErrorHandler: p.handle,
		SyncDelay: ptr.To(20 * time.Millisecond), // so that damage is soon repaired
	}
	if node != "" {
		options.Owner = &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node}
	}
	p.Controller, err = resourceslice.StartController(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

var notInNames = regexp.MustCompile("[^a-z0-9]+")

func driverOf(t *testing.T) string {
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	return strings.Trim(notInNames.ReplaceAllString(name, "-"), "-") + ".example.com"
}

func (p *publisher) handle(_ context.Context, err error, _ string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.errors = append(p.errors, err)
}

// told are the errors that the handler was told of.
func (p *publisher) told() []error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.errors)
}

// isTold waits for the first error. A write that failed in the eyes of the client may have
// taken effect, so that what is stored says nothing about the error handler.
func (p *publisher) isTold(t *testing.T) []error {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if told := p.told(); len(told) > 0 {
			return told
		}
	}
	t.Fatal("the error handler was told nothing")
	return nil
}

// stored returns the driver's slices.
func (p *publisher) stored(t *testing.T) []resourceapi.ResourceSlice {
	t.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + p.driver,
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// published describes what is stored: "pool: a,b | c", one slice after the other, and
// "mixed" if the slices do not make a complete pool of one generation.
func (p *publisher) published(t *testing.T) string {
	t.Helper()
	byPool := make(map[string][]resourceapi.ResourceSlice)
	for _, slice := range p.stored(t) {
		byPool[slice.Spec.Pool.Name] = append(byPool[slice.Spec.Pool.Name], slice)
	}
	var out []string
	for name, stored := range byPool {
		text := name + ":"
		for i, slice := range stored {
			if slice.Spec.Pool.Generation != stored[0].Spec.Pool.Generation || slice.Spec.Pool.ResourceSliceCount != int64(len(stored)) {
				text += " mixed"
			}
			if i > 0 {
				text += " |"
			}
			text += " " + strings.Join(names(slice.Spec.Devices), ",")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func names(devices []resourceapi.Device) []string {
	var out []string
	for _, device := range devices {
		out = append(out, device.Name)
	}
	return out
}

// becomes waits until what is stored is as wanted.
func (p *publisher) becomes(t *testing.T, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got = p.published(t); got == want {
			return
		}
	}
	t.Fatalf("published %q, want %q; errors %v", got, want, p.told())
}

// pools makes resources: {"pool": {"a,b", "c"}}, one text for each slice.
func pools(of map[string][]string) *resourceslice.DriverResources {
	out := &resourceslice.DriverResources{Pools: make(map[string]resourceslice.Pool)}
	for name, texts := range of {
		pool := resourceslice.Pool{AllNodes: true}
		for _, text := range texts {
			var slice resourceslice.Slice
			for _, device := range strings.Split(text, ",") {
				slice.Devices = append(slice.Devices, resourceapi.Device{Name: device})
			}
			pool.Slices = append(pool.Slices, slice)
		}
		out.Pools[name] = pool
	}
	return out
}

func pool(texts ...string) *resourceslice.DriverResources {
	return pools(map[string][]string{"pool": texts})
}
