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

// registration is what one kubelet process knows of a device type. Its
// connection stays open after the call: when it ends, that kubelet does not
// exist any more. That tells a restarted kubelet from the same one, which no
// look at files does, and kubelet must not be registered with twice: it would
// refuse the second time and, because of how it cleans up after a refusal,
// refuse ever after.
type registration struct {
	conn   *kubeletConn
	client *grpc.ClientConn

	mu      sync.Mutex
	streams int
	drop    sync.Once
	dropped chan struct{} // closed when the last stream has ended
}

// kubeletConn tells when gRPC closes it, which it does as soon as the other
// side has.
type kubeletConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *kubeletConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// register registers with the kubelet of the moment.
func (s *server) register(ctx context.Context, socket *sockets.File) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.kubeletSocket)
	if err != nil {
		return fmt.Errorf("connect to kubelet: %w", err)
	}
	// Kubelet removes the sockets of plugins before it makes its own. If the
	// plugin's is there now, this kubelet will find it.
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

	// It takes as long as this kubelet takes, or lives: if it was given up it
	// might succeed all the same, and the next attempt would be the second.
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

// close gives up the connection. Streams go on: they are kubelet's.
func (r *registration) close() {
	_ = r.client.Close()
	_ = r.conn.Close() // if gRPC did not come to it
}

// streamStarted is called for each ListAndWatch, and what it returns when that
// ends.
func (s *server) streamStarted() (ended func()) {
	s.mu.Lock()
	r := s.registration
	s.mu.Unlock()
	if r == nil {
		return func() {} // somebody looks at a plugin that is not registered
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

// isRefusal tells the answer of a kubelet from the absence of one.
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
