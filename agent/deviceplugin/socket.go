// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/internal/sockets"
)

// socket returns the path of the socket of a device type. If the path would be too long with the
// whole instance, it contains a part of the instance's hash.
func (m *Manager) socket(devType string) string {
	path := func(instance string) string {
		return filepath.Join(m.options.PluginDir, m.namespace+"-"+devType+instance+".sock")
	}
	if m.options.Instance == "" {
		return path("")
	}
	if whole := path("-" + m.options.Instance); sockets.CheckPath(whole) == nil {
		return whole
	}
	digest := sha256.Sum256([]byte(m.options.Instance))
	return path("-" + hex.EncodeToString(digest[:4]))
}

// kubeletSocket returns the path of kubelet's registration socket.
func (m *Manager) kubeletSocket() string {
	return filepath.Join(m.options.PluginDir, filepath.Base(pluginapi.KubeletSocket))
}
