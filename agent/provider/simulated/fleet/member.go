// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
)

// statusInterval is the time between two writes of a status that does not change. Kubelet has
// the same: the lease says that the node lives.
const statusInterval = 5 * time.Minute

// member is one node of a fleet.
type member struct {
	kind   *inventory.SimulatedNodes
	index  int // among those of its kind
	number int // among all members
	name   string

	mu       sync.Mutex
	uid      types.UID // of the node; empty: it is not registered
	lease    string    // the resourceVersion of its lease; empty: unknown
	renewed  time.Time
	statusAt time.Time // when its status is to be written; zero: now
	// adopted says that the node was there before, perhaps with other devices.
	adopted bool
	settled bool // it counts as registered, or as ended
	ended   bool // nothing is done for it any more
	ours    bool // its pods are the fleet's to run

	// What the script did so far: the last event of each device, and why the node is not ready.
	devices map[string]inventory.SimulatedEvent
	failure *inventory.SimulatedNodeFailure
	silent  bool        // nothing is written for it
	changed metav1.Time // when the condition Ready changed
}

// errNotOurs says that a node exists that the fleet must not touch.
var errNotOurs = errors.New("exists, and is not of this fleet")

// isFinal tells whether the same would fail for ever.
func isFinal(err error) bool {
	return errors.Is(err, errNotOurs) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// beat does what is due for a node. Only one worker does that at a time.
func (f *Fleet) beat(ctx context.Context, m *member) (time.Duration, error) {
	m.mu.Lock()
	ended, registered, silent := m.ended, m.uid != "", m.silent
	m.mu.Unlock()
	if ended || silent {
		return 0, nil
	}
	if !registered {
		if err := f.register(ctx, m); err != nil {
			return 0, fmt.Errorf("node %s: %w", m.name, err)
		}
		f.takePods(ctx, m)
		f.publishing.Add(m.number)
	}
	if err := f.writeStatus(ctx, m); err != nil {
		return 0, f.lost(m, fmt.Errorf("status of node %s: %w", m.name, err))
	}
	if err := f.renew(ctx, m); err != nil {
		return 0, f.lost(m, fmt.Errorf("lease of node %s: %w", m.name, err))
	}
	return f.renewInterval(), nil
}

func (f *Fleet) renewInterval() time.Duration {
	return time.Duration(f.options.LeaseSeconds) * time.Second / 4
}

// lost has a node created again, or looked at, that somebody deleted. A lease that is gone says so, too: the
// garbage collector deletes it after its node.
func (f *Fleet) lost(m *member, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.uid, m.lease, m.adopted = "", "", true
	}
	return err
}

// register creates the node, or takes it over from an earlier run of the fleet.
func (f *Fleet) register(ctx context.Context, m *member) error {
	nodes := f.options.Client.CoreV1().Nodes()
	want := f.newNode(m, metav1.Now())
	stored, err := nodes.Create(ctx, want, metav1.CreateOptions{})
	adopted := apierrors.IsAlreadyExists(err)
	if adopted {
		stored, err = f.adopt(ctx, want)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uid, m.lease, m.statusAt = stored.UID, "", time.Now().Add(statusInterval)
	m.adopted = m.adopted || adopted
	for _, condition := range stored.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			m.changed = condition.LastTransitionTime
		}
	}
	return nil
}

// adopt makes of a node that exists what it would be like if it was created now. Labels and taints
// that others gave it stay, but for taints that are not Kubernetes' own.
func (f *Fleet) adopt(ctx context.Context, want *corev1.Node) (*corev1.Node, error) {
	nodes := f.options.Client.CoreV1().Nodes()
	stored, err := nodes.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if stored.Labels[LabelFleet] != f.options.Name {
		return nil, fmt.Errorf("%w: its label %s is %q", errNotOurs, LabelFleet, stored.Labels[LabelFleet])
	}
	if takeOver(stored, want) {
		if stored, err = nodes.Update(ctx, stored, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	ready := want.Status.Conditions[0]
	stored.Status.Capacity, stored.Status.Allocatable, stored.Status.NodeInfo = want.Status.Capacity, want.Status.Allocatable, want.Status.NodeInfo
	setCondition(&stored.Status, ready)
	return nodes.UpdateStatus(ctx, stored, metav1.UpdateOptions{})
}

// writeStatus tells that the node is there, and whether it is ready, if that is due.
func (f *Fleet) writeStatus(ctx context.Context, m *member) error {
	now := metav1.Now()
	m.mu.Lock()
	due, uid := m.statusAt, m.uid
	condition := m.readyCondition(now)
	m.mu.Unlock()
	if now.Time.Before(due) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid}, // another node of this name may be somebody else's
		"status":   map[string]any{"conditions": []corev1.NodeCondition{condition}},
	})
	if err != nil {
		return err
	}
	if _, err := f.options.Client.CoreV1().Nodes().Patch(ctx, m.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.statusAt.Equal(due) { // the script may have changed it meanwhile
		m.statusAt = now.Add(statusInterval)
	}
	return nil
}

// readyCondition is called with the lock held.
func (m *member) readyCondition(now metav1.Time) corev1.NodeCondition {
	if m.changed.IsZero() {
		m.changed = now
	}
	condition := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", Message: "nothing runs here",
		LastHeartbeatTime: now, LastTransitionTime: m.changed,
	}
	if m.failure != nil {
		condition.Status = corev1.ConditionFalse
		condition.Reason, condition.Message = inventory.ConditionReason(m.failure.Reason, "SimulatedFailure"), inventory.ConditionMessage(m.failure.Message)
	}
	return condition
}

// renew renews the lease of a node, by which the node lifecycle controller knows that it lives.
func (f *Fleet) renew(ctx context.Context, m *member) error {
	leases := f.options.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := f.newLease(m)
	var stored *coordinationv1.Lease
	var err error
	if lease.ResourceVersion == "" {
		stored, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		stored, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		var before *coordinationv1.Lease
		if before, err = leases.Get(ctx, m.name, metav1.GetOptions{}); err != nil {
			return err
		}
		lease.ResourceVersion = before.ResourceVersion
		if last := before.Spec.RenewTime; last != nil && !last.Before(lease.Spec.RenewTime) {
			lease.Spec.RenewTime = &metav1.MicroTime{Time: last.Add(time.Microsecond)}
		}
		stored, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease, m.renewed = stored.ResourceVersion, lease.Spec.RenewTime.Time
	return nil
}

// newLease is the lease from now on. Its time does not go back, though the clock of the machine may:
// the node lifecycle controller would take no notice of it.
func (f *Fleet) newLease(m *member) *coordinationv1.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := metav1.NowMicro()
	if !now.After(m.renewed) {
		now.Time = m.renewed.Add(time.Microsecond)
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: m.name, ResourceVersion: m.lease, Labels: map[string]string{LabelFleet: f.options.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: m.name, UID: m.uid}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &m.name, LeaseDurationSeconds: ptr.To(f.options.LeaseSeconds), RenewTime: &now},
	}
}
