package deviceplugin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/sockets"
)

// socket is where the Manager serves a device type.
func (m *Manager) socket(devType string) string {
	return filepath.Join(m.options.PluginDir, m.namespace+"-"+devType+".sock")
}

// kubeletSocket is where kubelet takes registrations.
func (m *Manager) kubeletSocket() string {
	return filepath.Join(m.options.PluginDir, filepath.Base(pluginapi.KubeletSocket))
}

// socketFile is a listener, and the file by which clients find it for as long
// as nobody removes it.
type socketFile struct {
	net.Listener
	path string
	file os.FileInfo
}

var errSocketGone = errors.New("the plugin's socket was removed")

// listen makes a socket at path. One that is there already is replaced if
// nobody answers at it. The error is errSocketGone if the new one was removed
// at once.
func listen(path string) (*socketFile, error) {
	if err := sockets.CheckPath(path); err != nil {
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
		return nil, errors.Join(errSocketGone, listener.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("look at the new socket: %w", err), listener.Close())
	}
	return &socketFile{Listener: listener, path: path, file: file}, nil
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
	case answers(path):
		return fmt.Errorf("socket %s is in use by another process", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the stale socket: %w", err)
	}
	return nil
}

// answers tells whether a process listens at the socket.
func answers(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// isThere tells whether clients that look for the path find this socket.
func (s *socketFile) isThere() bool {
	file, err := os.Lstat(s.path)
	return err == nil && os.SameFile(file, s.file) && file.ModTime().Equal(s.file.ModTime())
}

// remove removes the file, unless there is another one by now.
func (s *socketFile) remove() error {
	if !s.isThere() {
		return nil
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket: %w", err)
	}
	return nil
}
