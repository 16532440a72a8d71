// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/sockets"
)

// registration is the registration of a device type with one kubelet process. Its connection stays
// open: when it ends, that kubelet has exited. Files cannot tell whether kubelet restarted. A
// plugin must not register twice with the same kubelet. Kubelet would refuse that, and its cleanup
// would make it refuse all later attempts.
type registration struct {
	conn   *kubeletConn
	client *grpc.ClientConn

	mu      sync.Mutex
	streams int
	drop    sync.Once
	dropped chan struct{} // closed when the last stream has ended
}

// kubeletConn is a connection whose closed channel is closed with it. gRPC closes the connection as
// soon as kubelet does.
type kubeletConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *kubeletConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// register registers the device type with the running kubelet.
func (s *server) register(ctx context.Context, socket *sockets.File) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.kubeletSocket)
	if err != nil {
		return fmt.Errorf("connect to kubelet: %w", err)
	}
	// Kubelet removes plugins' sockets before it makes its own. If the plugin's socket exists now,
	// this kubelet will find it.
	if !socket.IsThere() {
		return errors.Join(sockets.ErrGone, conn.Close())
	}
	r, err := newRegistration(conn)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.registration = r
	s.mu.Unlock()

	// There is no timeout. An attempt that was given up could still succeed, and the next one would
	// be a second registration.
	_, err = pluginapi.NewRegistrationClient(r.client).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     filepath.Base(s.socket),
		ResourceName: s.resource,
		Options:      s.pluginOptions(),
	})
	if err != nil {
		r.close()
		return fmt.Errorf("register with kubelet: %w", err)
	}
	return nil
}

func newRegistration(conn net.Conn) (*registration, error) {
	r := &registration{
		conn:    &kubeletConn{Conn: conn, closed: make(chan struct{})},
		dropped: make(chan struct{}),
	}
	var handed atomic.Bool
	client, err := grpc.NewClient("passthrough:kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithIdleTimeout(0), // stay connected without calls
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if handed.Swap(true) {
				return nil, errors.New("the connection to kubelet has ended")
			}
			return r.conn, nil
		}))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r.client = client
	return r, nil
}

// close closes the connection to kubelet's registration service. Streams of ListAndWatch go on,
// since kubelet opened them.
func (r *registration) close() {
	_ = r.client.Close()
	_ = r.conn.Close() // if gRPC did not close it
}

// streamStarted counts a stream of ListAndWatch. The returned function must be called when the
// stream ends.
func (s *server) streamStarted() (ended func()) {
	s.mu.Lock()
	r := s.registration
	s.mu.Unlock()
	if r == nil {
		return func() {} // another client than kubelet, such as a test tool
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.streams--
		if r.streams == 0 {
			r.drop.Do(func() { close(r.dropped) })
		}
	}
}

// isRefusal tells whether kubelet answered with an error. Otherwise it could not be reached.
func isRefusal(err error) bool {
	failure, answered := status.FromError(err)
	if !answered {
		return false
	}
	switch failure.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}
