// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// errNoOwner says that the node that must own the slices does not exist.
var errNoOwner = errors.New("the node does not exist")

// owner returns the owner reference of the slices, or nil if they have none.
func (c *Controller) owner(ctx context.Context) (*metav1.OwnerReference, error) {
	owner := c.options.Owner
	if owner == nil {
		return nil, nil
	}
	uid, err := c.lookUpOwner(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up owner: %w", err)
	}
	return &metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: uid, Controller: ptr.To(true)}, nil
}

// lookUpOwner returns the UID of the owner. The UID of a node is looked up again after a slice was
// deleted. The garbage collector deletes slices with their node, and a new node of that name has
// another UID.
func (c *Controller) lookUpOwner(ctx context.Context) (types.UID, error) {
	owner := c.options.Owner
	if owner.UID != "" || !isNode(owner) {
		return owner.UID, nil
	}
	c.ownerMutex.Lock()
	defer c.ownerMutex.Unlock()
	if c.ownerUID != "" {
		return c.ownerUID, nil
	}
	node, err := c.options.KubeClient.CoreV1().Nodes().Get(ctx, owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: %w", errNoOwner, err)
	}
	if err != nil {
		return "", err
	}
	if before := c.lastOwnerUID; before != "" && before != node.UID {
		// the slices of other pools have the same owner
		c.checkAll()
	}
	c.ownerUID, c.lastOwnerUID = node.UID, node.UID
	return node.UID, nil
}

// forgetOwner makes the next write look up the owner again.
func (c *Controller) forgetOwner() {
	c.ownerMutex.Lock()
	defer c.ownerMutex.Unlock()
	c.ownerUID = ""
}

// knownOwner returns the UID of the node at the last look-up, or empty.
func (c *Controller) knownOwner() types.UID {
	c.ownerMutex.Lock()
	defer c.ownerMutex.Unlock()
	return c.lastOwnerUID
}

// checkAll queues all pools to be compared with the stored slices.
func (c *Controller) checkAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for name := range c.pools {
		c.queue.Add(name)
	}
}

// isOwnedBy tells whether references contain the owner, and no other reference to the same object
// name.
func isOwnedBy(references []metav1.OwnerReference, owner *metav1.OwnerReference) bool {
	if owner == nil {
		return true
	}
	named := false
	for i := range references {
		switch {
		case references[i].UID == owner.UID:
			named = true
		case sameOwner(&references[i], owner):
			return false
		}
	}
	return named
}

// withOwner returns references in which the owner replaces an earlier reference to it. Other
// references remain.
func withOwner(references []metav1.OwnerReference, owner *metav1.OwnerReference) []metav1.OwnerReference {
	if isOwnedBy(references, owner) {
		return references
	}
	out := slices.DeleteFunc(slices.Clone(references), func(reference metav1.OwnerReference) bool {
		return sameOwner(&reference, owner) || ptr.Deref(reference.Controller, false)
	})
	return append(out, *owner)
}

// sameOwner compares owners without their UIDs.
func sameOwner(a, b *metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name
}
