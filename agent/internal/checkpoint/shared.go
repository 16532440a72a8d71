// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Store is a checkpoint that several processes may read and change.
type Store interface {
	// Lock locks the checkpoint until unlock is called. It waits for other processes, with a
	// timeout.
	Lock() (unlock func(), err error)
	// Read returns what was last written, or nil if there is nothing. If the content is damaged,
	// the error is a *DamagedError.
	Read() (json.RawMessage, error)
	// Write replaces the content atomically. The caller has locked the checkpoint.
	Write(json.RawMessage) error
}

const (
	// lockTimeout is how long Lock waits. Others hold the lock only to read and write once, unless
	// they are stopped or their disk hangs.
	lockTimeout  = 10 * time.Second
	lockInterval = 5 * time.Millisecond
)

// File is a Store in the file system. Its lock is a file beside it, which is never removed.
type File struct{ Path string }

// Lock implements Store.
func (f File) Lock() (unlock func(), err error) {
	path := f.Path + ".lock"
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockInterval) {
		unlock, err := LockFile(path, true)
		var locked *LockedError
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return unlock, err
		}
	}
}

// Read implements Store.
func (f File) Read() (json.RawMessage, error) {
	content, err := Read[json.RawMessage](f.Path)
	if err == nil && bytes.Equal(content, []byte("null")) {
		return nil, &DamagedError{f.Path, "it has no content"}
	}
	return content, err
}

// Write implements Store.
func (f File) Write(content json.RawMessage) error { return Write(f.Path, content) }

// LockedError says that another process has the lock.
type LockedError struct{ Path string }

func (err *LockedError) Error() string {
	return fmt.Sprintf("%s is locked by another process", err.Path)
}

// LockFile locks a file, which it creates if necessary. Several processes may have the lock, unless
// one has it exclusively. LockFile does not wait: if the lock is taken, the error is a
// *LockedError. The kernel releases the lock when the process ends.
func LockFile(path string, exclusive bool) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(&LockedError{path}, file.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
