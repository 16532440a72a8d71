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

// Manager runs one Scanner, and serves its devices to kubelet. It runs one gRPC server per device
// type.
//
// Two Managers of the same namespace on one node, in one process or two, must
// serve different types, unless they are instances of one driver (Options.Instance).
type Manager struct {
	namespace string
	scanner   Scanner
	options   Options
}

// Options configure a Manager. The zero value is for use on a node. Tests set other directories.
type Options struct {
	// PluginDir is where kubelet.sock is and where the sockets of device types
	// are made. It defaults to kubelet's, /var/lib/kubelet/device-plugins.
	PluginDir string
	// CDIDir is where CDI files are written. It defaults to the constant CDIDir.
	CDIDir string
	// Instance, if set, is part of the names of sockets. Two processes can then serve the same
	// types during a rolling update. It is usually the UID of the driver's pod, and must be valid
	// in a file name. Kubelet 1.37 calls the process that registered last, and the other one when
	// that is gone. Both must have the same devices.
	Instance string
}

// NewManager returns a Manager that serves the devices of devicePlugin as
// resources <namespace>/<type>. A namespace is a DNS subdomain, such as
// gpu.example.com.
func NewManager(namespace string, devicePlugin Scanner) *Manager {
	return NewManagerWithOptions(namespace, devicePlugin, Options{})
}

// NewManagerWithOptions is NewManager with options.
func NewManagerWithOptions(namespace string, devicePlugin Scanner, options Options) *Manager {
	if options.PluginDir == "" {
		options.PluginDir = pluginapi.DevicePluginPath
	}
	if options.CDIDir == "" {
		options.CDIDir = CDIDir
	}
	return &Manager{namespace: namespace, scanner: devicePlugin, options: options}
}

// Run scans and serves until Scan returns. If Scan or RunWithContext returns an error, Run logs it
// and exits the process with status 1, so that the driver is restarted.
func (m *Manager) Run() {
	if err := m.RunWithContext(context.Background()); err != nil {
		klog.Background().Error(err, "The device plugin ends", "namespace", m.namespace)
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// RunWithContext scans and serves until ctx is done, and then returns nil, or until Scan returns.
// On return, no server runs and no socket is left. CDI files remain, because containers with a
// device may be restarted. The logger comes from ctx.
//
// It returns an error if Scan returns one or panics, if a type's resource name is invalid, or if
// the socket of a type is in use or cannot be made. It also does if kubelet refuses registration
// repeatedly. If kubelet is not running, it waits without limit.
//
// Scan takes no context and cannot be cancelled. RunWithContext does not wait for it, and later
// calls of Notify have no effect. A Manager runs once.
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

// cdiOwner is the owner of the CDI files. It is not the namespace alone, which may also be the name
// of a DRA driver with files of its own.
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

// notifier applies trees to the servers of device types.
type notifier struct {
	ctx     context.Context // the context of RunWithContext
	manager *Manager
	specs   *specs
	failed  chan error // the first failure of a server

	mu      sync.Mutex
	tree    DeviceTree
	servers map[string]*runningServer
	// notBefore says when a type that was removed may be registered again, by type.
	notBefore map[string]time.Time
	stopped   bool
}

// runningServer is a server with its goroutine.
type runningServer struct {
	*server
	cancel context.CancelFunc
	ended  chan struct{}
}

// Notify implements Notifier. It copies the tree.
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

	// A CDI file exists before kubelet learns of its device, and until kubelet no longer knows the
	// device.
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

// difference returns the types that were added, updated or removed.
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
			default: // one failure is enough to end the Manager
			}
		}
	}()
}

func (s *runningServer) stop() {
	s.cancel()
	<-s.ended
}

// stop ends all servers. Later calls of Notify have no effect.
func (n *notifier) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	for _, server := range n.servers {
		server.stop()
	}
}

// othersServe tells whether another process serves a type of this namespace. It is called before
// this process makes sockets.
func (m *Manager) othersServe() bool {
	entries, err := os.ReadDir(m.options.PluginDir)
	if err != nil {
		return false // making a socket there will return the error
	}
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		devType, ours := strings.CutPrefix(entry.Name(), m.namespace+"-")
		return ours && strings.HasSuffix(devType, ".sock") && sockets.Answers(filepath.Join(m.options.PluginDir, entry.Name()))
	})
}

// validateResource returns an error for resource names that kubelet would refuse, or that are not
// valid in a file name.
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
