// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// ErrGone says that the file of a socket was removed or replaced.
var ErrGone = errors.New("the socket was removed")

// InUseError says that another process serves the socket.
type InUseError struct{ Path string }

func (err *InUseError) Error() string {
	return fmt.Sprintf("socket %s is in use by another process", err.Path)
}

// File is a listener on a unix socket, and the socket's file. Methods may be called concurrently.
type File struct {
	net.Listener
	path string
	file os.FileInfo
}

// Listen makes a socket at path. It replaces an existing socket that no process serves; otherwise
// the error is an *InUseError. If the new socket was removed at once, the error is ErrGone.
func Listen(path string) (*File, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Close must not remove a file that another process may have made at this path.
	listener.SetUnlinkOnClose(false)
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed by a kubelet that is just starting
		return nil, errors.Join(ErrGone, listener.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("look at the new socket: %w", err), listener.Close())
	}
	return &File{Listener: listener, path: path, file: file}, nil
}

func removeStale(path string) error {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case file.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is in the way: it is not a socket", path)
	case Answers(path):
		return &InUseError{path}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the stale socket: %w", err)
	}
	return nil
}

// Answers tells whether a process listens at the socket, even if it is stopped.
func Answers(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Path returns the path of the socket.
func (f *File) Path() string { return f.path }

// IsThere tells whether the file at the path is still this socket.
func (f *File) IsThere() bool {
	file, err := os.Lstat(f.path)
	return err == nil && os.SameFile(file, f.file) && file.ModTime().Equal(f.file.ModTime())
}

// Remove removes the file, unless it was replaced.
func (f *File) Remove() error {
	if !f.IsThere() {
		return nil
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket: %w", err)
	}
	return nil
}
