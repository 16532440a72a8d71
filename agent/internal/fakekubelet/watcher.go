// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Steps of a PluginWatcher, in the order in which they happen for a DRA driver.
const (
	Found       Step = "the socket of a driver is found"
	Informed    Step = "the driver has said what it is"
	Registered  Step = "the driver is told that it is registered"
	Preparing   Step = "NodePrepareResources is called"
	Prepared    Step = "claims are prepared"
	Unpreparing Step = "NodeUnprepareResources is called"
	Unprepared  Step = "claims are unprepared"
)

// WatcherSteps are all steps of a PluginWatcher, in order.
var WatcherSteps = []Step{Found, Informed, Registered, Preparing, Prepared, Unpreparing, Unprepared}

// PluginWatcher implements the part of kubelet that DRA drivers interact with. It finds drivers by
// their sockets in a folder, including existing ones. Its methods may be called concurrently.
type PluginWatcher struct {
	dir     string
	dieAt   Step
	ctx     context.Context // done when the watcher is dead
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of drivers
	drivers map[string]*grpc.ClientConn
}

// StartPluginWatcher starts a watcher that dies at a step.
func StartPluginWatcher(dir string, dieAt Step) (*PluginWatcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := watcher.Add(dir); err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &PluginWatcher{
		dir: dir, dieAt: dieAt, ctx: ctx, cancel: cancel,
		changed: make(chan struct{}),
		drivers: make(map[string]*grpc.ClientConn),
	}
	w.running.Go(func() {
		defer func() { _ = watcher.Close() }()
		w.watch(watcher)
	})
	return w, nil
}

// Kill ends the watcher immediately.
func (w *PluginWatcher) Kill() {
	w.cancel()
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, conn := range w.drivers {
		_ = conn.Close()
		delete(w.drivers, name)
	}
}

// Dead returns a channel that is closed when the watcher is dead.
func (w *PluginWatcher) Dead() <-chan struct{} { return w.ctx.Done() }

func (w *PluginWatcher) reached(step Step) error {
	if step == w.dieAt {
		w.cancel()
	}
	if w.ctx.Err() != nil {
		return errDead
	}
	return nil
}

func (w *PluginWatcher) watch(watcher *fsnotify.Watcher) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		w.registerAt(filepath.Join(w.dir, entry.Name()))
	}
	for {
		select {
		case event := <-watcher.Events:
			if event.Has(fsnotify.Create) {
				w.registerAt(event.Name)
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// registerAt registers the driver of a socket. It ignores other files, as kubelet does after
// logging an error.
func (w *PluginWatcher) registerAt(socket string) {
	if !strings.HasSuffix(socket, ".sock") || w.reached(Found) != nil {
		return
	}
	conn, err := dialUnix(socket)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	client := registration.NewRegistrationClient(conn)
	plugin, err := client.GetInfo(w.ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || plugin.GetType() != registration.DRAPlugin || w.reached(Informed) != nil {
		return
	}
	driver, err := dialUnix(plugin.GetEndpoint())
	if err != nil {
		return
	}
	if _, err := client.NotifyRegistrationStatus(w.ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil || w.reached(Registered) != nil {
		_ = driver.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if former := w.drivers[plugin.GetName()]; former != nil {
		_ = former.Close()
	}
	w.drivers[plugin.GetName()] = driver
	close(w.changed)
	w.changed = make(chan struct{})
}

func dialUnix(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:driver",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))
}

// driver waits for a driver to be registered.
func (w *PluginWatcher) driver(ctx context.Context, name string) (dra.DRAPluginClient, error) {
	for {
		w.mu.Lock()
		conn, changed := w.drivers[name], w.changed
		w.mu.Unlock()
		if conn != nil {
			return dra.NewDRAPluginClient(conn), nil
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return nil, errDead
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for driver %s: %w", name, ctx.Err())
		}
	}
}

// Prepare calls a driver to prepare a claim, as for a pod that starts.
func (w *PluginWatcher) Prepare(ctx context.Context, driver string, claim *dra.Claim) ([]*dra.Device, error) {
	client, err := w.driver(ctx, driver)
	if err != nil {
		return nil, err
	}
	ctx, cancel := w.call(ctx, Preparing)
	defer cancel()
	answer, err := client.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{claim}})
	if err != nil {
		return nil, err
	}
	result := answer.GetClaims()[claim.GetUid()]
	switch {
	case result == nil:
		return nil, fmt.Errorf("driver %s does not answer for claim %s", driver, claim.GetUid())
	case result.GetError() != "":
		return nil, errors.New(result.GetError())
	}
	return result.GetDevices(), w.reached(Prepared)
}

// Unprepare calls a driver to unprepare a claim, as for a pod that has ended.
func (w *PluginWatcher) Unprepare(ctx context.Context, driver string, claim *dra.Claim) error {
	client, err := w.driver(ctx, driver)
	if err != nil {
		return err
	}
	ctx, cancel := w.call(ctx, Unpreparing)
	defer cancel()
	answer, err := client.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{claim}})
	if err != nil {
		return err
	}
	result := answer.GetClaims()[claim.GetUid()]
	switch {
	case result == nil:
		return fmt.Errorf("driver %s does not answer for claim %s", driver, claim.GetUid())
	case result.GetError() != "":
		return errors.New(result.GetError())
	}
	return w.reached(Unprepared)
}

// call returns the context for a call. If the watcher dies at this step, it does so after the call
// was sent.
func (w *PluginWatcher) call(ctx context.Context, step Step) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.ctx, cancel)
	if step == w.dieAt {
		w.running.Go(func() { _ = w.reached(step) })
	}
	return ctx, func() { stop(); cancel() }
}
