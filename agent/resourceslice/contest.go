// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContestedPoolError says that another writer keeps undoing what the controller publishes, most
// likely a second instance of the driver. It is reported at the third repair in a row, so that one
// instance can replace another without it. Later repairs of the pool are delayed more and more.
// Changes by the driver are still published at once.
type ContestedPoolError struct {
	PoolName string
	// Repairs is the number of repairs in a row.
	Repairs int
	// Writer is the field manager of the other writer's last write. It is empty if that was a
	// delete.
	Writer string
}

func (err *ContestedPoolError) Error() string {
	return fmt.Sprintf("pool %q: %s keeps undoing what is published: it was put right %d times in a row; does another instance of the driver publish the same pool?", err.PoolName, err.By(), err.Repairs)
}

// By names the other writer, for messages.
func (err *ContestedPoolError) By() string {
	if err.Writer == "" {
		return "somebody else"
	}
	return fmt.Sprintf("field manager %q", err.Writer)
}

const (
	// contestedAfter is the number of repairs in a row after which a pool is contested.
	contestedAfter = 3
	// Repairs count as "in a row" if at most contestMemory times SyncDelay lies between them. The
	// delay of repairs grows to at most slowestRepair times SyncDelay.
	contestMemory = 32
	slowestRepair = 16
)

// contest counts repairs: writes to a pool that was already as desired, and that another writer
// changed.
type contest struct {
	repairs int
	last    time.Time
	writer  string // field manager of the other writer's last write

	seen map[write]bool // managed-fields entries in the responses to the controller's last writes
	over bool           // seen is complete; the next write starts a new set
}

// repaired counts a repair, and returns whether the pool is contested.
func (c *contest) repaired(syncDelay time.Duration) bool {
	if time.Since(c.last) > contestMemory*syncDelay {
		c.repairs = 0
	}
	c.repairs++
	c.last = time.Now()
	return c.repairs >= contestedAfter
}

// wait returns how long the next repair must be delayed.
func (c *contest) wait(syncDelay time.Duration) time.Duration {
	if c.repairs < contestedAfter {
		return 0
	}
	slower := min(1<<min(c.repairs-contestedAfter+1, 10), slowestRepair)
	return time.Until(c.last.Add(time.Duration(slower) * syncDelay))
}

// recent tells whether a repair now would be in a row with the last one.
func (c *contest) recent(syncDelay time.Duration) bool {
	return time.Since(c.last) <= contestMemory*syncDelay
}

// found records the field manager who changed slices: that of the latest managed-fields entry that
// is not in seen. Times there have a resolution of one second. A writer that only removes fields
// leaves no entry.
func (c *contest) found(stored []*resourceapi.ResourceSlice) {
	c.writer, c.over = "", true
	var last time.Time
	for _, slice := range stored {
		for _, entry := range slice.ManagedFields {
			if entry.Time != nil && entry.Time.After(last) && !c.seen[writeOf(entry)] {
				c.writer, last = entry.Manager, entry.Time.Time
			}
		}
	}
}

// wrote adds the managed-fields entries in the response to a write of the controller to seen.
func (c *contest) wrote(after []metav1.ManagedFieldsEntry) {
	if c.over || c.seen == nil {
		c.seen, c.over = make(map[write]bool), false
	}
	for _, entry := range after {
		if entry.Time != nil {
			c.seen[writeOf(entry)] = true
		}
	}
}

// write identifies a managed-fields entry.
type write struct {
	manager string
	second  int64
}

func writeOf(entry metav1.ManagedFieldsEntry) write { return write{entry.Manager, entry.Time.Unix()} }
