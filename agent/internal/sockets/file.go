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

// ErrGone says that the file of a socket was removed, or that another one is in its place.
var ErrGone = errors.New("the socket was removed")

// InUseError says that a process answers at a socket that is to be made.
type InUseError struct{ Path string }

func (err *InUseError) Error() string {
	return fmt.Sprintf("socket %s is in use by another process", err.Path)
}

// File is a listener, and the file by which clients find it for as long as nobody removes it.
// Methods may be called concurrently.
type File struct {
	net.Listener
	path string
	file os.FileInfo
}

// Listen makes a socket at path. One that is there already is replaced if nobody answers at
// it; otherwise the error is an *InUseError. It is ErrGone if the new one was removed at once.
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
	// After the file was removed there may be another one at its path.
	listener.SetUnlinkOnClose(false)
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // by a kubelet that starts at this moment
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

// Answers tells whether a process listens at the socket. One that is stopped does, too.
func Answers(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Path is where the socket was made.
func (f *File) Path() string { return f.path }

// IsThere tells whether clients that look for the path find this socket.
func (f *File) IsThere() bool {
	file, err := os.Lstat(f.path)
	return err == nil && os.SameFile(file, f.file) && file.ModTime().Equal(f.file.ModTime())
}

// Remove removes the file, unless there is another one by now.
func (f *File) Remove() error {
	if !f.IsThere() {
		return nil
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket: %w", err)
	}
	return nil
}
