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

// statusInterval is the interval at which an unchanged status is written. It is kubelet's; leases
// are the more frequent heartbeat.
const statusInterval = 5 * time.Minute

// member is one node of a fleet.
type member struct {
	kind   *inventory.SimulatedNodes
	index  int // among the nodes of its kind
	number int // among all members
	name   string

	mu       sync.Mutex
	uid      types.UID // of the node; empty if it is not registered
	lease    string    // resourceVersion of the lease; empty if unknown
	renewed  time.Time
	statusAt time.Time // when the status must be written next; zero: now
	// adopted says that the node existed before, perhaps with other devices.
	adopted bool
	settled bool // counted as registered or failed
	ended   bool // failed permanently
	ours    bool // the fleet runs its pods

	// What the script has done so far: the latest event of each device, and why the node is not
	// ready.
	devices map[string]inventory.SimulatedEvent
	failure *inventory.SimulatedNodeFailure
	silent  bool        // nothing is written for the node, as if its kubelet had failed
	changed metav1.Time // last transition of the condition Ready
}

// errNotOurs says that a node of this name exists outside the fleet.
var errNotOurs = errors.New("exists, and is not of this fleet")

// isFinal tells whether an error is permanent.
func isFinal(err error) bool {
	return errors.Is(err, errNotOurs) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// beat registers a node if necessary, and writes status and lease if due. Only one worker does that
// for a node at a time.
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
		return 0, f.handleLost(m, fmt.Errorf("status of node %s: %w", m.name, err))
	}
	if err := f.renew(ctx, m); err != nil {
		return 0, f.handleLost(m, fmt.Errorf("lease of node %s: %w", m.name, err))
	}
	return f.renewInterval(), nil
}

func (f *Fleet) renewInterval() time.Duration {
	return time.Duration(f.options.LeaseSeconds) * time.Second / 4
}

// handleLost handles an error of a node that somebody deleted or replaced: it will be registered
// again. A missing lease indicates that, too, because the garbage collector deletes it after its
// node.
func (f *Fleet) handleLost(m *member, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.uid, m.lease, m.adopted = "", "", true
	}
	return err
}

// register creates the node, or adopts the one of an earlier run of the fleet.
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

// adopt updates an existing node to what the fleet would create. Labels that others added remain.
// Taints of others are removed, except those with the prefix node.kubernetes.io/.
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

// writeStatus writes the condition Ready of the node, if that is due.
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
		"metadata": map[string]any{"uid": uid}, // so that it fails if the node was replaced by another one
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
	if m.statusAt.Equal(due) { // unless the script has changed it meanwhile
		m.statusAt = now.Add(statusInterval)
	}
	return nil
}

// readyCondition returns the condition Ready. The caller holds the lock.
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

// renew renews the lease of a node, which is its heartbeat for the node lifecycle controller.
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

// newLease returns the lease with a new time of renewal. That time never goes back, even if the
// machine's clock does: the node lifecycle controller would ignore it.
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
