// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakekubelet implements the part of kubelet that device plugins interact with, for tests.
// It uses real gRPC over real sockets, and has no pods.
//
// For plugins, it behaves as kubelet 1.37. It removes sockets before it makes its own, connects
// back to a plugin during registration, accepts a socket only once, and forgets everything when it
// restarts. It can be made to die at any of these steps. A PluginWatcher does the same for DRA
// drivers.
package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Step is a step at which a kubelet can be made to die.
type Step string

// Steps in the order in which they happen for a plugin.
const (
	Cleaned     Step = "sockets are removed, none is made"
	Listening   Step = "the socket is made"
	Registering Step = "a plugin registers"
	Connected   Step = "the plugin's socket is connected to"
	Accepted    Step = "the plugin's options are known"
	Watching    Step = "ListAndWatch is called"
	Listed      Step = "the first list is there"
	Updated     Step = "a later list is there"
	Allocating  Step = "Allocate is called"
)

// Steps are all steps, in order.
var Steps = []Step{Cleaned, Listening, Registering, Connected, Accepted, Watching, Listed, Updated, Allocating}

// Options configure a Kubelet.
type Options struct {
	// DieAt makes the kubelet die at this step.
	DieAt Step
	// KeepSockets disables the removal of plugins' sockets at the start.
	KeepSockets bool
	// ForgetDelay is the delay before a lost plugin is removed.
	ForgetDelay time.Duration
	// ReadOn, if not nil, must be closed before the kubelet reads more than the first list of
	// devices.
	ReadOn <-chan struct{}
	// Refuse, if not empty, is the error for all registrations.
	Refuse string
}

// Kubelet is one kubelet process. Its methods may be called concurrently.
type Kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir     string
	options Options
	ctx     context.Context // done when the kubelet is dead
	cancel  context.CancelFunc
	dead    chan struct{}
	kill    sync.Once
	running sync.WaitGroup // goroutines that watch plugins
	server  *grpc.Server

	mu            sync.Mutex
	changed       chan struct{}                 // closed at the next change of the fields below
	plugins       map[string]map[string]*plugin // by resource and socket
	devices       map[string]map[string]*pluginapi.Device
	inUse         map[string]map[string]bool // by resource and ID
	lists         map[string]int
	registrations int
	refusals      []string
}

// Start starts a kubelet in a directory. It returns when the kubelet listens, or has died at a step
// before.
func Start(dir string, options Options) (*Kubelet, error) {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Kubelet{
		dir: dir, options: options, ctx: ctx, cancel: cancel,
		dead:    make(chan struct{}),
		changed: make(chan struct{}),
		plugins: make(map[string]map[string]*plugin),
		devices: make(map[string]map[string]*pluginapi.Device),
		inUse:   make(map[string]map[string]bool),
		lists:   make(map[string]int),
	}
	if err := k.clean(); err != nil {
		return nil, err
	}
	if k.reached(Cleaned) != nil {
		k.Kill()
		return k, nil //nolint:nilerr // it died at the requested step
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: k.socket(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("start kubelet: %w", err)
	}
	listener.SetUnlinkOnClose(false) // a killed process does not remove its socket
	k.server = grpc.NewServer(grpc.WaitForHandlers(true))
	pluginapi.RegisterRegistrationServer(k.server, k)
	k.running.Go(func() { _ = k.server.Serve(listener) })
	if k.reached(Listening) != nil {
		k.Kill()
	}
	return k, nil
}

func (k *Kubelet) socket() string {
	return filepath.Join(k.dir, filepath.Base(pluginapi.KubeletSocket))
}

// clean removes all sockets.
func (k *Kubelet) clean() error {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return fmt.Errorf("start kubelet: %w", err)
	}
	for _, entry := range entries {
		if entry.Type() != fs.ModeSocket || k.options.KeepSockets && entry.Name() != filepath.Base(k.socket()) {
			continue
		}
		if err := os.Remove(filepath.Join(k.dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("start kubelet: %w", err)
		}
	}
	return nil
}

var errDead = errors.New("kubelet is dead")

// reached is called at each step. It returns an error if the kubelet dies there.
func (k *Kubelet) reached(step Step) error {
	if step == k.options.DieAt {
		k.cancel()
		go k.Kill() // in the background, since Kill waits for the caller
	}
	if k.ctx.Err() != nil {
		return errDead
	}
	return nil
}

// Kill ends the kubelet immediately, and leaves its socket.
func (k *Kubelet) Kill() {
	k.kill.Do(func() {
		k.cancel()
		if k.server != nil {
			k.server.Stop()
		}
		k.disconnectAll()
		k.running.Wait()
		close(k.dead)
	})
	<-k.dead
}

// Stop stops the kubelet gracefully: first plugins, then the socket.
func (k *Kubelet) Stop() error {
	k.disconnectAll()
	k.Kill()
	if err := os.Remove(k.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Dead returns a channel that is closed when the kubelet is dead.
func (k *Kubelet) Dead() <-chan struct{} { return k.dead }

func (k *Kubelet) disconnectAll() {
	k.mu.Lock()
	resources := slices.Collect(maps.Keys(k.plugins))
	k.mu.Unlock()
	for _, resource := range resources {
		k.Disconnect(resource)
	}
}

// Disconnect closes the connections to the plugins of a resource.
func (k *Kubelet) Disconnect(resource string) {
	k.mu.Lock()
	plugins := slices.Collect(maps.Values(k.plugins[resource]))
	k.mu.Unlock()
	for _, p := range plugins {
		_ = p.conn.Close()
	}
}

// Register implements the registration API. It connects to the plugin before it responds.
func (k *Kubelet) Register(ctx context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if err := k.reached(Registering); err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.registrations++
	k.mu.Unlock()
	if err := k.accept(ctx, request); err != nil {
		if k.ctx.Err() == nil {
			k.mu.Lock()
			k.refusals = append(k.refusals, err.Error())
			k.mu.Unlock()
		}
		return nil, err
	}
	return &pluginapi.Empty{}, nil
}

func (k *Kubelet) accept(ctx context.Context, request *pluginapi.RegisterRequest) error {
	switch {
	case k.options.Refuse != "":
		return errors.New(k.options.Refuse)
	case !slices.Contains(pluginapi.SupportedVersions[:], request.GetVersion()):
		return fmt.Errorf("version %q is not supported", request.GetVersion())
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	p, err := connect(ctx, request.GetResourceName(), filepath.Join(k.dir, request.GetEndpoint()))
	if err != nil {
		return err
	}
	if err := k.admit(ctx, p); err != nil {
		_ = p.conn.Close()
		return err
	}
	return nil
}

// admit adds the plugin to the known plugins, and starts to watch it.
func (k *Kubelet) admit(ctx context.Context, p *plugin) error {
	if err := k.reached(Connected); err != nil {
		return err
	}
	var err error
	if p.options, err = p.api.GetDevicePluginOptions(ctx, &pluginapi.Empty{}); err != nil {
		return fmt.Errorf("options of %s: %w", p.resource, err)
	}
	if err := k.reached(Accepted); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.plugins[p.resource][p.socket]; known != nil {
		// Kubelet removes both from its clients, but never removes the older endpoint.
		known.orphaned = true
		return fmt.Errorf("device plugin already connected: %s", p.socket)
	}
	if k.ctx.Err() != nil {
		return errDead
	}
	if k.plugins[p.resource] == nil {
		k.plugins[p.resource] = make(map[string]*plugin)
	}
	k.plugins[p.resource][p.socket] = p
	k.running.Go(func() { k.watch(p) })
	return nil
}

// Registrations returns the number of registrations, including refused ones.
func (k *Kubelet) Registrations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registrations
}

// Refusals returns the errors of refused registrations.
func (k *Kubelet) Refusals() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.refusals)
}
