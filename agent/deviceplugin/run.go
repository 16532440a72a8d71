// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/internal/sockets"
)

// Manager runs one Scanner and serves what it finds to kubelet: a gRPC server
// for each device type.
//
// Two Managers of the same namespace on one node, in one process or two, must
// serve different types, unless they are instances of one driver (Options.Instance).
type Manager struct {
	namespace string
	scanner   Scanner
	options   Options
}

// Options are what a Manager takes from the node. The zero value is right on a
// node; tests have directories of their own.
type Options struct {
	// PluginDir is where kubelet.sock is and where the sockets of device types
	// are made. It defaults to kubelet's, /var/lib/kubelet/device-plugins.
	PluginDir string
	// CDIDir is where CDI files are written. It defaults to the constant CDIDir.
	CDIDir string
	// Instance, if any, is part of the names of sockets, so that two processes can serve the
	// same types while one takes the place of the other: the UID of the driver's pod, or
	// whatever else fits into a file name. Kubelet 1.37 asks the one that registered last, and the other
	// one again if that goes. Both must have the same devices.
	Instance string
}

// NewManager returns a Manager that serves the devices of devicePlugin as
// resources <namespace>/<type>. A namespace is a DNS subdomain, such as
// gpu.example.com.
func NewManager(namespace string, devicePlugin Scanner) *Manager {
	return NewManagerWithOptions(namespace, devicePlugin, Options{})
}

// NewManagerWithOptions is NewManager for other directories than the node's.
func NewManagerWithOptions(namespace string, devicePlugin Scanner, options Options) *Manager {
	if options.PluginDir == "" {
		options.PluginDir = pluginapi.DevicePluginPath
	}
	if options.CDIDir == "" {
		options.CDIDir = CDIDir
	}
	return &Manager{namespace: namespace, scanner: devicePlugin, options: options}
}

// Run scans and serves until Scan returns. If that, or anything that
// RunWithContext reports, is an error, it is logged and the process exits with
// status 1, so that whoever runs the driver starts it again.
func (m *Manager) Run() {
	if err := m.RunWithContext(context.Background()); err != nil {
		klog.Background().Error(err, "The device plugin ends", "namespace", m.namespace)
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// RunWithContext scans and serves until ctx is done, which is no error, or
// Scan returns. When it returns no server runs and no socket is left. CDI files
// stay, because containers that have a device may be started anew. The logger
// is that of ctx.
//
// It returns an error if Scan returns one or panics, if a type has no valid
// resource name, if the socket of a type is in use or cannot be made, and if
// kubelet refuses a registration again and again. It waits for a kubelet that
// is not there for as long as it takes.
//
// Scan takes no context and cannot be ended from outside. RunWithContext does
// not wait for it, and Notify does nothing any more. A Manager runs once.
func (m *Manager) RunWithContext(ctx context.Context) error {
	files, err := cdi.Open(m.options.CDIDir, m.cdiOwner())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := &notifier{
		ctx:       ctx,
		manager:   m,
		specs:     &specs{files: files},
		servers:   make(map[string]*runningServer),
		notBefore: make(map[string]time.Time),
		failed:    make(chan error, 1),
	}
	scanned := make(chan error, 1)
	go func() { scanned <- m.scan(n) }()

	select {
	case err = <-scanned:
	case err = <-n.failed:
	case <-ctx.Done():
	}
	cancel()
	n.stop()
	return err
}

// cdiOwner is not the namespace alone: that may also be the name of a DRA
// driver, which has its own files.
func (m *Manager) cdiOwner() string { return m.namespace + "-device-plugin" }

func (m *Manager) scan(n Notifier) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("scan for devices of %s: panic: %v\n%s", m.namespace, cause, debug.Stack())
		}
	}()
	if err := m.scanner.Scan(n); err != nil {
		return fmt.Errorf("scan for devices of %s: %w", m.namespace, err)
	}
	return nil
}

// notifier applies trees to servers.
type notifier struct {
	ctx     context.Context // that of RunWithContext, for what Notify starts
	manager *Manager
	specs   *specs
	failed  chan error // the first failure of a server

	mu      sync.Mutex
	tree    DeviceTree
	servers map[string]*runningServer
	// notBefore is when a type that was removed may be registered again.
	notBefore map[string]time.Time
	stopped   bool
}

// runningServer is a server and the end of its goroutine.
type runningServer struct {
	*server
	cancel context.CancelFunc
	ended  chan struct{}
}

// Notify is safe with trees that the caller modifies afterwards.
func (n *notifier) Notify(tree DeviceTree) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return
	}
	tree = tree.clone()
	added, updated, removed := difference(n.tree, tree)
	if n.tree == nil {
		n.specs.adopt(n.ctx, n.manager.othersServe())
	}
	n.tree = tree

	// A CDI file is there before kubelet learns of its device, and as long as
	// kubelet knows it.
	n.specs.write(n.ctx, tree)
	for _, devType := range added {
		n.start(devType, tree[devType])
	}
	for _, devType := range updated {
		n.servers[devType].devices.set(tree[devType])
	}
	for _, devType := range removed {
		n.servers[devType].stop()
		n.notBefore[devType] = time.Now().Add(forgetDelay)
		delete(n.servers, devType)
	}
	n.specs.removeOthers(n.ctx)
}

// difference sorts types by how they changed.
func difference(before, after DeviceTree) (added, updated, removed []string) {
	for devType, devices := range after {
		old, existed := before[devType]
		switch {
		case !existed:
			added = append(added, devType)
		case !equalDevices(old, devices):
			updated = append(updated, devType)
		}
	}
	for devType := range before {
		if _, exists := after[devType]; !exists {
			removed = append(removed, devType)
		}
	}
	return added, updated, removed
}

func equalDevices(a, b map[string]DeviceInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for id, device := range a {
		if other, exists := b[id]; !exists || !device.equal(other) {
			return false
		}
	}
	return true
}

func (n *notifier) start(devType string, devices map[string]DeviceInfo) {
	ctx, cancel := context.WithCancel(n.ctx)
	server := &runningServer{server: newServer(n.manager, devType, devices, n.specs, n.notBefore[devType]), cancel: cancel, ended: make(chan struct{})}
	n.servers[devType] = server
	go func() {
		defer close(server.ended)
		if err := server.run(ctx); err != nil {
			select {
			case n.failed <- fmt.Errorf("serve %s: %w", server.resource, err):
			default: // one ends the Manager
			}
		}
	}()
}

func (s *runningServer) stop() {
	s.cancel()
	<-s.ended
}

// stop ends all servers and makes Notify do nothing.
func (n *notifier) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	for _, server := range n.servers {
		server.stop()
	}
}

// othersServe tells whether another process serves a type of this namespace.
// It is asked before this one does.
func (m *Manager) othersServe() bool {
	entries, err := os.ReadDir(m.options.PluginDir)
	if err != nil {
		return false // making a socket there will say so
	}
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		devType, ours := strings.CutPrefix(entry.Name(), m.namespace+"-")
		return ours && strings.HasSuffix(devType, ".sock") && sockets.Answers(filepath.Join(m.options.PluginDir, entry.Name()))
	})
}

// validateResource refuses what kubelet would refuse, and what is no file name.
func validateResource(resource string) error {
	if problems := validation.IsQualifiedName(resource); len(problems) > 0 {
		return fmt.Errorf("resource %q: %s", resource, strings.Join(problems, "; "))
	}
	switch {
	case !strings.Contains(resource, "/"):
		return fmt.Errorf("resource %q: it has no namespace", resource)
	case strings.Contains(resource, "kubernetes.io/"):
		return fmt.Errorf("resource %q: the namespace belongs to Kubernetes", resource)
	case strings.HasPrefix(resource, "requests."):
		return fmt.Errorf("resource %q: it starts like a quota", resource)
	}
	return nil
}
