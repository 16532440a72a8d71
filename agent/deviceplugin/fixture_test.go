// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == failingDriver {
		runFailingDriver()
		return
	}
	klog.SetLogger(logr.Discard())
	leakcheck.Main(m)
}

const (
	namespace = "example.com"
	gpu       = "example.com/gpu"
	patience  = 5 * time.Minute // for what takes milliseconds, on a machine that has other things to do
)

// driver is a Scanner that tests tell what to find.
type driver struct {
	notifier chan Notifier
	end      chan error // what Scan returns
}

func newDriver() *driver {
	return &driver{notifier: make(chan Notifier, 1), end: make(chan error, 1)}
}

func (d *driver) Scan(n Notifier) error {
	d.notifier <- n
	return <-d.end
}

// node is a machine with directories for sockets and CDI files.
type node struct {
	testing.TB
	ctx     context.Context
	plugins string
	cdi     string
}

func newNode(t testing.TB) *node {
	t.Helper()
	root := shortdir.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	n := &node{TB: t, ctx: ctx, plugins: filepath.Join(root, "device-plugins"), cdi: filepath.Join(root, "cdi")}
	if err := os.Mkdir(n.plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

// kubelet starts one, which is killed at the latest when the test ends.
func (n *node) kubelet(options fakekubelet.Options) *fakekubelet.Kubelet {
	n.Helper()
	kubelet, err := fakekubelet.Start(n.plugins, options)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(kubelet.Kill)
	return kubelet
}

// running is a Manager that runs.
type running struct {
	Notifier
	node   *node
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid when ended is closed
}

// start runs a Manager of the driver until the test ends. The scanner is the
// driver or has it inside.
func (n *node) start(d *driver, scanner Scanner) *running {
	n.Helper()
	ctx, cancel := context.WithCancel(n.ctx)
	r := &running{node: n, cancel: cancel, ended: make(chan struct{})}
	manager := NewManagerWithOptions(namespace, scanner, Options{PluginDir: n.plugins, CDIDir: n.cdi})
	go func() {
		defer close(r.ended)
		r.err = manager.RunWithContext(ctx)
		select {
		case d.end <- nil:
		default:
		}
	}()
	r.Notifier = <-d.notifier
	n.Cleanup(r.stop)
	return r
}

// serve starts a Manager that only reports trees.
func (n *node) serve() *running {
	n.Helper()
	d := newDriver()
	return n.start(d, d)
}

func (r *running) stop() {
	r.cancel()
	_ = r.wait() // tests that expect an error look at it
}

// wait returns how the Manager ended.
func (r *running) wait() error {
	r.node.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.node.Error("the Manager does not end")
		return errors.New("it does not end")
	}
	return r.err
}

// healthy is a device that nothing is known of.
func healthy() DeviceInfo {
	return NewDeviceInfoWithTopologyHints(pluginapi.Healthy, nil, nil, nil, nil, nil, nil)
}

func unhealthy() DeviceInfo {
	return NewDeviceInfoWithTopologyHints(pluginapi.Unhealthy, nil, nil, nil, nil, nil, nil)
}

// tree has devices of type gpu.
func tree(ids ...string) DeviceTree {
	t := NewDeviceTree()
	t["gpu"] = make(map[string]DeviceInfo)
	for _, id := range ids {
		t.AddDevice("gpu", id, healthy())
	}
	return t
}

// generation is a tree whose only device says how many came before it.
func generation(i int) DeviceTree { return tree(generationID(i)) }

// sees waits until exactly these devices of a resource are healthy.
func (n *node) sees(kubelet *fakekubelet.Kubelet, resource string, ids ...string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.ctx, patience)
	defer cancel()
	if err := kubelet.WaitFor(ctx, resource, func(devices map[string]*pluginapi.Device) bool {
		return slices.Equal(healthyOnes(devices), ids)
	}); err != nil {
		n.Fatal(err)
	}
}

func healthyOnes(devices map[string]*pluginapi.Device) []string {
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(devices)) {
		if devices[id].GetHealth() == pluginapi.Healthy {
			ids = append(ids, id)
		}
	}
	return ids
}

// files are the names in a directory.
func (n *node) files(dir string) []string {
	n.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func generationID(i int) string { return strconv.Itoa(i) }
