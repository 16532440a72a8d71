// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContestedPoolError says that somebody else keeps undoing what the controller publishes,
// most likely a second instance of the driver. An instance that takes over from another is
// no reason for it: it is told when the pool was put right for the third time in a row. The
// pool is then put right less and less often. What the driver changes is published as ever.
type ContestedPoolError struct {
	PoolName string
	// Repairs is how often the pool was put right, in a row.
	Repairs int
	// Writer is the field manager of the last write of somebody else, or empty if that was a
	// delete.
	Writer string
}

func (err *ContestedPoolError) Error() string {
	return fmt.Sprintf("pool %q: %s keeps undoing what is published: it was put right %d times in a row; does another instance of the driver publish the same pool?", err.PoolName, err.By(), err.Repairs)
}

// By is who undoes what is published, for people.
func (err *ContestedPoolError) By() string {
	if err.Writer == "" {
		return "somebody else"
	}
	return fmt.Sprintf("field manager %q", err.Writer)
}

const (
	// contestedAfter is how many repairs in a row are too many.
	contestedAfter = 3
	// contestMemory times the SyncDelay is how long after a repair the next one is in a row
	// with it, and slowestRepair times that is the longest wait between two.
	contestMemory = 32
	slowestRepair = 16
)

// contest is how often a pool was put right that was as desired before.
type contest struct {
	repairs int
	last    time.Time
	writer  string // of what was last found instead

	seen map[write]bool // who had written the slices, by the answers to the controller's last writes
	over bool           // these writes are over
}

// repaired notes a repair, and tells whether the pool is contested.
func (c *contest) repaired(syncDelay time.Duration) bool {
	if time.Since(c.last) > contestMemory*syncDelay {
		c.repairs = 0
	}
	c.repairs++
	c.last = time.Now()
	return c.repairs >= contestedAfter
}

// wait is how long the next repair of a contested pool has to wait.
func (c *contest) wait(syncDelay time.Duration) time.Duration {
	if c.repairs < contestedAfter {
		return 0
	}
	slower := min(1<<min(c.repairs-contestedAfter+1, 10), slowestRepair)
	return time.Until(c.last.Add(time.Duration(slower) * syncDelay))
}

// recent tells whether a repair would be in a row with what was done last.
func (c *contest) recent(syncDelay time.Duration) bool {
	return time.Since(c.last) <= contestMemory*syncDelay
}

// found notes who wrote slices that are not as desired: the last of those that had not when the
// controller had written. The API server notes times to the second only, and nobody who only removes
// something.
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

// wrote notes what the API server made of the managed fields in a write of the controller.
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

// write is an entry of managed fields, as far as it matters.
type write struct {
	manager string
	second  int64
}

func writeOf(entry metav1.ManagedFieldsEntry) write { return write{entry.Manager, entry.Time.Unix()} }
