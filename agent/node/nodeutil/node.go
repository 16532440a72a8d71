// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node"
)

// Node is a virtual node: its controllers, informers and HTTPS server. NewNode makes it, and it
// runs once.
type Node struct {
	nodes *node.NodeController
	pods  *node.PodController

	// naive is set if there is no NodeProvider. The node then becomes ready when its pods can run.
	naive *node.NaiveNodeProviderV2
	spec  *corev1.Node

	ready chan struct{}
	done  chan struct{}
	err   error // read after done is closed

	client    kubernetes.Interface
	informers []informers.SharedInformerFactory
	events    record.EventBroadcaster // nil if the caller gave the recorder

	listenAddr string
	handler    http.Handler
	tlsConfig  *tls.Config

	workers int
}

// NodeController returns the controller of the node.
func (n *Node) NodeController() *node.NodeController { return n.nodes }

// PodController returns the controller of the node's pods.
func (n *Node) PodController() *node.PodController { return n.pods }

// Run runs the node until ctx ends or a controller fails, and waits for its goroutines. The node is
// registered when its pods can run. If ctx ends before the node is ready, Run returns the error of
// ctx; afterwards, nil.
func (n *Node) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		n.err = err
		close(n.done)
	}()
	defer cancel()

	if n.events != nil {
		n.events.StartStructuredLogging(4)
		n.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: n.client.CoreV1().Events(metav1.NamespaceAll)})
		defer n.events.Shutdown()
	}
	stopServing, err := n.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()
	for _, factory := range n.informers {
		factory.Start(ctx.Done())
		defer factory.Shutdown()
	}

	go func() { _ = n.pods.Run(ctx, n.workers) }()
	defer func() {
		cancel()
		<-n.pods.Done()
	}()
	if err := await(ctx, n.pods); err != nil {
		return err
	}
	go func() { _ = n.nodes.Run(ctx) }()
	defer func() {
		cancel()
		<-n.nodes.Done()
	}()
	if err := await(ctx, n.nodes); err != nil {
		return err
	}
	if n.naive != nil {
		setReady(n.spec)
		if err := n.naive.UpdateStatus(ctx, n.spec); err != nil {
			return fmt.Errorf("the node is not said to be ready: %w", err)
		}
	}
	close(n.ready)

	select {
	case <-n.nodes.Done():
		return n.nodes.Err()
	case <-n.pods.Done():
		return n.pods.Err()
	}
}

// controller is what NodeController and PodController have in common.
type controller interface {
	Ready() <-chan struct{}
	Done() <-chan struct{}
	Err() error
}

// await waits until a controller is ready.
func await(ctx context.Context, c controller) error {
	select {
	case <-c.Ready():
		return nil
	case <-c.Done():
		if err := c.Err(); err != nil {
			return err
		}
		return errors.New("a controller ended before it was ready")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func setReady(n *corev1.Node) {
	n.Status.Phase = corev1.NodeRunning
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, "KubeletReady", "Kubelet is ready"
			c.LastHeartbeatTime, c.LastTransitionTime = metav1.Now(), metav1.Now()
		}
	}
}

// serve starts the HTTPS server if there is a handler, and returns a function that stops it.
func (n *Node) serve(ctx context.Context) (stop func(), err error) {
	if n.handler == nil || n.tlsConfig == nil {
		klog.FromContext(ctx).V(2).Info("Requests of the API server are not served", "handler", n.handler != nil, "tls", n.tlsConfig != nil)
		return func() {}, nil
	}
	listener, err := tls.Listen("tcp", n.listenAddr, n.tlsConfig)
	if err != nil {
		return nil, fmt.Errorf("serve requests of the API server: %w", err)
	}
	server := &http.Server{
		Handler: n.handler, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Requests of the API server are no longer served")
		}
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// WaitReady waits until the node is ready, for at most timeout if that is positive. It returns the
// error of ctx, or the error with which the node ended before.
func (n *Node) WaitReady(ctx context.Context, timeout time.Duration) error {
	if timeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	select {
	case <-n.ready:
		return nil
	case <-n.done:
		return fmt.Errorf("the node ended before it was ready: %w", n.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready returns a channel that is closed when the node is ready.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Done returns a channel that is closed when Run has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns the result of Run. It is nil before Run has ended.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}
