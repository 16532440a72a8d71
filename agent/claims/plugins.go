// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
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
	known   []*plugin     // in the order of registration, the latest one last
	changed chan struct{} // closed when a plugin is added
}

// plugin is one process of a driver.
type plugin struct {
	driver string
	socket string // in the registration folder
	conn   *grpc.ClientConn
	// speaks tells whether the driver reports health. unfollow stops receiving the reports.
	speaks   bool
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
		folder: folder, health: newHealths(), changed: make(chan struct{}),
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
	p.list(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-watcher.Events:
			if event.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename) {
				p.queue.Add(event.Name)
			}
		case err := <-watcher.Errors:
			klog.FromContext(ctx).Error(err, "Events of the registration folder were lost", "folder", p.folder)
			p.list(ctx)
		}
	}
}

// list queues the sockets in the folder, and the known ones.
func (p *plugins) list(ctx context.Context) {
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The registration folder cannot be read", "folder", p.folder)
	}
	for _, entry := range entries {
		p.queue.Add(filepath.Join(p.folder, entry.Name()))
	}
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
	p.known = slices.DeleteFunc(p.known, func(known *plugin) bool {
		if known.socket != socket {
			return false
		}
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
		if found.speaks {
			p.background.Go(func() { p.health.follow(ctx, found.driver, found.conn) })
		}
		p.known = append(p.known, found)
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// registered returns a channel that is closed when a driver registers.
func (p *plugins) registered() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.changed
}

// client returns a client for the process of a driver that registered last. During a rolling
// update, the old and the new process are both registered.
func (p *plugins) client(driver string) (dra.DRAPluginClient, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, known := range slices.Backward(p.known) {
		if known.driver == driver {
			return dra.NewDRAPluginClient(known.conn), nil
		}
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
	if answer.GetName() == "" || answer.GetEndpoint() == "" {
		return nil, errors.New("DRA driver without name or endpoint")
	}
	if !slices.Contains(answer.GetSupportedVersions(), dra.DRAPluginService) {
		return nil, fmt.Errorf("DRA driver %s supports %q, but not %s", answer.GetName(), answer.GetSupportedVersions(), dra.DRAPluginService)
	}
	conn, err := dial(answer.GetEndpoint())
	if err != nil {
		return nil, fmt.Errorf("DRA driver %s: %w", answer.GetName(), err)
	}
	speaks := slices.Contains(answer.GetSupportedVersions(), drahealth.DRAResourceHealthService)
	return &plugin{driver: answer.GetName(), socket: socket, conn: conn, speaks: speaks}, nil
}

// dial returns a connection that is made at the first call.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}
