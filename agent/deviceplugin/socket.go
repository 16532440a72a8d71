package deviceplugin

import (
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// socket is where the Manager serves a device type.
func (m *Manager) socket(devType string) string {
	name := m.namespace + "-" + devType
	if m.options.Instance != "" {
		name += "-" + m.options.Instance
	}
	return filepath.Join(m.options.PluginDir, name+".sock")
}

// kubeletSocket is where kubelet takes registrations.
func (m *Manager) kubeletSocket() string {
	return filepath.Join(m.options.PluginDir, filepath.Base(pluginapi.KubeletSocket))
}
