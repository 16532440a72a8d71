// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/resourceslice"
)

// events records Events of the node. The nil value records none. Its methods may be called
// concurrently.
type events struct {
	node     *corev1.ObjectReference
	recorder record.EventRecorder
	stop     func()
}

func newEvents(options *Options) *events {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: options.Client.CoreV1().Events("")})
	return &events{
		// Kubelet refers to its node in the same way, with the name as UID, so that it need not
		// read the Node.
		node:     &corev1.ObjectReference{Kind: "Node", Name: options.NodeName, UID: types.UID(options.NodeName)},
		recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dray-agent", Host: options.NodeName}),
		stop:     broadcaster.Shutdown,
	}
}

// warn records an Event of type Warning, without blocking.
func (e *events) warn(reason, text string) {
	if e != nil {
		e.recorder.Event(e.node, corev1.EventTypeWarning, reason, text)
	}
}

// onError handles an error of a background goroutine. It logs the error. If another publisher keeps
// overwriting the same pool, it also records an Event of the node.
func (d *driverServer) onError(ctx context.Context, err error, msg string) {
	klog.FromContext(ctx).Error(err, "In the background: "+msg)
	var contested *resourceslice.ContestedPoolError
	if errors.As(err, &contested) {
		// The text does not contain the number of repairs, so that equal Events are counted as one.
		d.events.warn("PoolHasTwoPublishers", fmt.Sprintf("driver %s, pool %q: %s keeps undoing what dray-agent publishes; does another agent of the driver publish the same pool?",
			d.name, contested.PoolName, contested.By()))
	}
}
