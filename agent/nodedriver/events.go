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

// events writes Events of the node. A nil one writes none. Methods may be called concurrently.
type events struct {
	node     *corev1.ObjectReference
	recorder record.EventRecorder
	stop     func()
}

func newEvents(options *Options) *events {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: options.Client.CoreV1().Events("")})
	return &events{
		// Kubelet names nodes so, too: by what is known of a node before it is looked up.
		node:     &corev1.ObjectReference{Kind: "Node", Name: options.NodeName, UID: types.UID(options.NodeName)},
		recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dray-agent", Host: options.NodeName}),
		stop:     broadcaster.Shutdown,
	}
}

// warn returns at once.
func (e *events) warn(reason, text string) {
	if e != nil {
		e.recorder.Event(e.node, corev1.EventTypeWarning, reason, text)
	}
}

// background tells what went wrong in the background: in the log, and as an Event of the node if
// somebody else publishes the same pool.
func (d *served) background(ctx context.Context, err error, msg string) {
	klog.FromContext(ctx).Error(err, "In the background: "+msg)
	var contested *resourceslice.ContestedPoolError
	if errors.As(err, &contested) {
		// Without the number of repairs: the API server counts equal Events.
		d.events.warn("PoolHasTwoPublishers", fmt.Sprintf("driver %s, pool %q: %s keeps undoing what dray-agent publishes; does another agent of the driver publish the same pool?",
			d.name, contested.PoolName, contested.By()))
	}
}
