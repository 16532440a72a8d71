// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrationTimeout is the timeout for the registration of a driver.
const registrationTimeout = 10 * time.Second

// plugins are the drivers with sockets in the registration folder.
type plugins struct {
	folder     string
	queue      workqueue.TypedRateLimitingInterface[string] // paths of sockets
	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup
	health     *healths

	mutex   sync.Mutex
	known   []*plugin            // in the order of registration, the latest one last
	count   int                  // of registrations
	changed chan struct{}        // closed when a plugin is added
	absent  map[string]time.Time // since when drivers cannot be reached that have been registered; nil: it is not recorded
	lost    chan struct{}        // gets a value when there is another one
}

// plugin is one process of a driver.
type plugin struct {
	driver string
	socket string // in the registration folder
	conn   *grpc.ClientConn
	// older says that the driver has only version v1beta1 of the API.
	older bool
	// connected tells whether the process can be reached.
	connected bool
	// health is the service with which the driver reports health, empty if it reports none.
	health string
	// unfollow ends what is done in the background for the process.
	unfollow context.CancelFunc
}

// watchPlugins starts to watch a folder, which must exist.
func watchPlugins(ctx context.Context, folder string) (*plugins, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch for drivers: %w", err)
	}
	if err := watcher.Add(folder); err != nil {
		return nil, errors.Join(fmt.Errorf("watch for drivers: %w", err), watcher.Close())
	}
	p := &plugins{
		folder: folder, health: newHealths(), changed: make(chan struct{}), lost: make(chan struct{}, 1),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.background.Go(func() { p.watch(p.ctx, watcher) })
	p.background.Go(func() { p.work(p.ctx) })
	return p, nil
}

func (p *plugins) stop() {
	p.cancel()
	p.background.Wait()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, known := range p.known {
		_ = known.conn.Close()
	}
	p.known = nil
}

// watch queues the sockets that exist, and those that change.
func (p *plugins) watch(ctx context.Context, watcher *fsnotify.Watcher) {
	defer p.queue.ShutDown()
	defer func() { _ = watcher.Close() }()
	p.find(ctx, watcher, p.folder)
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-watcher.Events:
			switch {
			case isHidden(event.Name):
			case event.Has(fsnotify.Create):
				p.find(ctx, watcher, event.Name)
			case event.Has(fsnotify.Remove | fsnotify.Rename):
				p.queue.Add(event.Name)
			}
		case err := <-watcher.Errors:
			klog.FromContext(ctx).Error(err, "Events of the registration folder were lost", "folder", p.folder)
			p.find(ctx, watcher, p.folder)
			p.checkAll()
		}
	}
}

// find queues what is at a path and below it, and watches the folders there. As for kubelet, names
// that begin with a dot do not count.
func (p *plugins) find(ctx context.Context, watcher *fsnotify.Watcher, path string) {
	_ = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			klog.FromContext(ctx).Error(err, "A folder of drivers' sockets cannot be read", "path", path)
		case path == p.folder: // it is watched already
		case isHidden(path) && entry.IsDir():
			return fs.SkipDir
		case isHidden(path):
		case entry.IsDir():
			if err := watcher.Add(path); err != nil {
				klog.FromContext(ctx).Error(err, "A folder of drivers' sockets cannot be watched", "path", path)
			}
		default:
			p.queue.Add(path)
		}
		return nil
	})
}

func isHidden(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }

// checkAll queues the known sockets, of which some may be gone.
func (p *plugins) checkAll() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, known := range p.known {
		p.queue.Add(known.socket)
	}
}

func (p *plugins) work(ctx context.Context) {
	for {
		socket, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		// registered concurrently, so that a driver that does not answer does not delay others
		p.background.Go(func() {
			defer p.queue.Done(socket)
			if err := p.update(ctx, socket); err != nil {
				klog.FromContext(ctx).V(2).Info("Driver cannot be registered yet", "socket", socket, "reason", err)
				p.queue.AddRateLimited(socket)
				return
			}
			p.queue.Forget(socket)
		})
	}
}

// update registers the driver of a socket, or forgets it if the socket is gone. It registers a
// known socket again, because another driver may have replaced it.
func (p *plugins) update(ctx context.Context, socket string) error {
	file, err := os.Stat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.replace(socket, nil)
		return nil
	case err != nil:
		return err
	case file.Mode().Type() != fs.ModeSocket:
		return nil
	}
	found, err := register(ctx, socket)
	if err != nil {
		return err
	}
	p.replace(socket, found)
	return nil
}

// replace replaces the plugin of a socket by found, or removes it if found is nil. If the driver
// was known, its connection is kept, because calls may be in flight. It leads to whichever process
// listens at the endpoint.
func (p *plugins) replace(socket string, found *plugin) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var drivers []string // of the socket, before and after
	p.known = slices.DeleteFunc(p.known, func(known *plugin) bool {
		if known.socket != socket {
			return false
		}
		drivers = append(drivers, known.driver)
		if found != nil && known.conn.Target() == found.conn.Target() {
			known.conn, found.conn = found.conn, known.conn
			found.conn.ResetConnectBackoff()
		}
		known.unfollow()
		_ = known.conn.Close()
		return true
	})
	if found != nil {
		var ctx context.Context
		ctx, found.unfollow = context.WithCancel(p.ctx)
		p.count++
		if process, from := p.count, *found; from.health != "" {
			p.background.Go(func() { p.health.follow(ctx, process, from) })
		}
		conn := found.conn
		p.background.Go(func() { p.watchConnection(ctx, found, conn) })
		found.connected = true // it has just answered
		p.known = append(p.known, found)
		close(p.changed)
		p.changed = make(chan struct{})
		drivers = append(drivers, found.driver)
	}
	for _, driver := range drivers {
		p.noteAbsence(driver)
	}
}

// watchConnection keeps the connection to a process open, and records whether it is, until ctx
// ends. A process that was killed leaves its socket.
func (p *plugins) watchConnection(ctx context.Context, to *plugin, conn *grpc.ClientConn) {
	for {
		state := conn.GetState()
		if state == connectivity.Idle {
			conn.Connect()
		}
		p.mutex.Lock()
		// While it connects, it is not known to be lost.
		if connected := state == connectivity.Ready || state != connectivity.TransientFailure && to.connected; connected != to.connected {
			to.connected = connected
			p.noteAbsence(to.driver)
		}
		p.mutex.Unlock()
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// registered returns a channel that is closed when a driver registers.
func (p *plugins) registered() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.changed
}

// client returns a client for the process of a driver that registered last. During a rolling
// update, the old and the new process are both registered. One that can be reached is preferred.
func (p *plugins) client(driver string) (dra.DRAPluginClient, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var found *plugin
	for _, known := range slices.Backward(p.known) {
		if known.driver == driver && (found == nil || known.connected && !found.connected) {
			found = known
		}
	}
	switch {
	case found != nil && found.older:
		return drav1beta1.V1Beta1ClientWrapper{DRAPluginClient: drav1beta1.NewDRAPluginClient(found.conn)}, nil
	case found != nil:
		return dra.NewDRAPluginClient(found.conn), nil
	}
	return nil, fmt.Errorf("%w: there is no socket of it in %s", errNotRegistered, p.folder)
}

var errNotRegistered = errors.New("not registered")

// register asks the program at a socket what it is, and tells it whether it was accepted. It
// returns nil if the program is no DRA driver.
func register(ctx context.Context, socket string) (*plugin, error) {
	ctx, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	client := registration.NewRegistrationClient(conn)
	answer, err := client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return nil, err
	}
	if answer.GetType() != registration.DRAPlugin {
		return nil, nil
	}
	found, refused := accept(socket, answer)
	status := &registration.RegistrationStatus{PluginRegistered: refused == nil}
	if refused != nil {
		status.Error = refused.Error()
	}
	if _, err := client.NotifyRegistrationStatus(ctx, status); err != nil && found != nil {
		return nil, errors.Join(err, found.conn.Close())
	}
	if refused != nil {
		klog.FromContext(ctx).Error(refused, "Driver refused", "socket", socket)
	}
	return found, nil // a driver that was refused would be refused again
}

func accept(socket string, answer *registration.PluginInfo) (*plugin, error) {
	if answer.GetName() == "" {
		return nil, errors.New("DRA driver without a name")
	}
	older := !slices.Contains(answer.GetSupportedVersions(), dra.DRAPluginService)
	if older && !slices.Contains(answer.GetSupportedVersions(), drav1beta1.DRAPluginService) {
		return nil, fmt.Errorf("DRA driver %s supports %q, but neither %s nor %s",
			answer.GetName(), answer.GetSupportedVersions(), dra.DRAPluginService, drav1beta1.DRAPluginService)
	}
	conn, err := dial(cmp.Or(answer.GetEndpoint(), socket)) // the endpoint is optional
	if err != nil {
		return nil, fmt.Errorf("DRA driver %s: %w", answer.GetName(), err)
	}
	found := &plugin{driver: answer.GetName(), socket: socket, conn: conn, older: older}
	// Drivers with the libraries of Kubernetes 1.36 have the older service only.
	for _, service := range []string{drahealth.DRAResourceHealthService, drahealthv1alpha1.DRAResourceHealthService} {
		if found.health == "" && slices.Contains(answer.GetSupportedVersions(), service) {
			found.health = service
		}
	}
	return found, nil
}

// dial returns a connection that is made at the first call.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}
