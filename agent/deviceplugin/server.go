// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/sockets"
)

const (
	// drainTimeout is how long to wait until kubelet closes its connection after the end of
	// ListAndWatch.
	drainTimeout = 2 * time.Second
	// forgetDelay is how long kubelet needs to remove a plugin after its stream ended. Before, it
	// would refuse a registration with the same socket.
	forgetDelay = time.Second
	// maxRefusals is how many registrations in a row kubelet may refuse.
	maxRefusals = 10
)

// retryDelays is the backoff between registrations. Its steps add up to ten seconds.
var retryDelays = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: maxRefusals, Cap: 5 * time.Second}

// server serves one device type as long as the type exists. Meanwhile its socket may be made again,
// and kubelet may restart.
type server struct {
	resource      string
	socket        string
	kubeletSocket string
	hooks         hooks
	devices       *deviceList
	specs         *specs
	// notBefore is when the same kubelet accepts another registration.
	notBefore time.Time

	mu sync.Mutex // guards registration outside of run
	// registration is the latest registration. New streams are counted there. Its connection stays
	// open until the next one.
	registration *registration
}

// hooks are the optional interfaces that a plugin implements, or nil.
type hooks struct {
	allocator          Allocator
	postAllocator      PostAllocator
	preferredAllocator PreferredAllocator
	preStarter         ContainerPreStarter
}

func hooksOf(plugin Scanner) hooks {
	var h hooks
	h.allocator, _ = plugin.(Allocator)
	h.postAllocator, _ = plugin.(PostAllocator)
	h.preferredAllocator, _ = plugin.(PreferredAllocator)
	h.preStarter, _ = plugin.(ContainerPreStarter)
	return h
}

func newServer(m *Manager, devType string, devices map[string]DeviceInfo, specs *specs, notBefore time.Time) *server {
	return &server{
		resource:      m.namespace + "/" + devType,
		socket:        m.socket(devType),
		kubeletSocket: m.kubeletSocket(),
		hooks:         hooksOf(m.scanner),
		devices:       newDeviceList(devices),
		specs:         specs,
		notBefore:     notBefore,
	}
}

func (s *server) pluginOptions() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{
		PreStartRequired:                s.hooks.preStarter != nil,
		GetPreferredAllocationAvailable: s.hooks.preferredAllocator != nil,
	}
}

// run serves until ctx is done or an error occurs.
func (s *server) run(ctx context.Context) error {
	if err := validateResource(s.resource); err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(filepath.Dir(s.socket)); err != nil {
		return err
	}
	defer func() {
		if s.registration != nil {
			s.registration.close()
		}
	}()
	for ctx.Err() == nil {
		if err := s.serveSocket(ctx, watcher); err != nil {
			return err
		}
	}
	return nil
}

// serveSocket makes the socket, and serves on it until the socket is removed. Kubelet removes it
// when it starts.
func (s *server) serveSocket(ctx context.Context, watcher *fsnotify.Watcher) error {
	socket, err := sockets.Listen(s.socket)
	if errors.Is(err, sockets.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	clients := newConnectionCount()
	grpcServer := grpc.NewServer(grpc.StatsHandler(clients))
	pluginapi.RegisterDevicePluginServer(grpcServer, &service{server: s, ctx: ctx})
	var serving sync.WaitGroup
	serving.Go(func() { cancel(grpcServer.Serve(socket)) })

	err = s.stayRegistered(ctx, socket, watcher)
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	clients.waitForNone(drainTimeout)
	if s.registration != nil {
		s.notBefore = time.Now().Add(forgetDelay)
	}
	grpcServer.Stop()
	serving.Wait()
	return errors.Join(err, socket.Remove())
}

// stayRegistered keeps the type registered with whichever kubelet runs, until the socket is removed
// or ctx is done.
func (s *server) stayRegistered(ctx context.Context, socket *sockets.File, watcher *fsnotify.Watcher) error {
	logger := klog.FromContext(ctx).WithValues("resource", s.resource)
	delays, refusals := retryDelays, 0
	for {
		s.waitToBeForgotten(ctx)
		err := s.register(ctx, socket)
		switch {
		case err == nil:
			logger.V(1).Info("Registered with kubelet")
			delays, refusals = retryDelays, 0
			s.waitForLoss(ctx, socket, watcher)
			logger.V(1).Info("No longer registered with kubelet")
		case isRefusal(err):
			refusals++
			logger.Error(err, "Kubelet refuses the device plugin", "times", refusals)
			if refusals == maxRefusals {
				return err
			}
		default:
			logger.V(2).Info("Kubelet is not ready for the device plugin", "err", err)
		}
		if ctx.Err() != nil || !socket.IsThere() {
			return nil //nolint:nilerr // it is tried again with the next socket
		}
		if s.pause(ctx, watcher, delays.Step()) {
			delays = retryDelays
		}
	}
}

// waitToBeForgotten waits until no kubelet knows the plugin. The kubelet of the last registration
// has exited, or had forgetDelay to notice the end of a stream.
func (s *server) waitToBeForgotten(ctx context.Context) {
	var dead chan struct{}
	if s.registration != nil {
		dead = s.registration.conn.closed
		defer s.registration.close()
	}
	select {
	case <-dead:
	case <-time.After(time.Until(s.notBefore)):
	case <-ctx.Done():
	}
}

// waitForLoss waits until the registration is lost.
func (s *server) waitForLoss(ctx context.Context, socket *sockets.File, watcher *fsnotify.Watcher) {
	defer func() { s.notBefore = time.Now().Add(forgetDelay) }()
	for {
		select {
		case <-s.registration.conn.closed:
			return
		case <-s.registration.dropped:
			return
		case <-watcher.Events:
		case err := <-watcher.Errors:
			logLostEvents(ctx, err)
		case <-ctx.Done():
			return
		}
		if !socket.IsThere() {
			return
		}
	}
}

// pause waits for the delay, or until one of the sockets changes. It returns true in the latter
// case.
func (s *server) pause(ctx context.Context, watcher *fsnotify.Watcher, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case event := <-watcher.Events:
			if event.Name == s.kubeletSocket || event.Name == s.socket {
				return true
			}
		case err := <-watcher.Errors:
			logLostEvents(ctx, err)
			return true
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// logLostEvents logs an error of a watcher. Lost events do no harm, since callers check the sockets
// afterwards.
func logLostEvents(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "What happened to sockets may have been missed")
}

// connectionCount counts a gRPC server's connections.
type connectionCount struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed while there is no connection
}

func newConnectionCount() *connectionCount {
	none := make(chan struct{})
	close(none)
	return &connectionCount{none: none}
}

// HandleConn implements stats.Handler. It counts connections.
func (c *connectionCount) HandleConn(_ context.Context, event stats.ConnStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch event.(type) {
	case *stats.ConnBegin:
		if c.open == 0 {
			c.none = make(chan struct{})
		}
		c.open++
	case *stats.ConnEnd:
		c.open--
		if c.open == 0 {
			close(c.none)
		}
	}
}

func (c *connectionCount) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}
func (c *connectionCount) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}
func (c *connectionCount) HandleRPC(context.Context, stats.RPCStats) {}

func (c *connectionCount) waitForNone(timeout time.Duration) {
	c.mu.Lock()
	none := c.none
	c.mu.Unlock()
	select {
	case <-none:
	case <-time.After(timeout):
	}
}
