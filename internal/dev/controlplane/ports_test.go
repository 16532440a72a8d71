// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

// TestFreePorts: ports differ, nobody listens on them, and the kernel does not give them to others.
func TestFreePorts(t *testing.T) {
	ports, err := freePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range ports {
		if port < firstPort || port > lastPort || slices.Contains(ports[:i], port) {
			t.Errorf("port %d, after %v", port, ports[:i])
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			t.Error(err)
			continue
		}
		t.Cleanup(func() { _ = listener.Close() })
	}
	if again, err := freePorts(50); err != nil || slices.ContainsFunc(again, func(port int) bool { return slices.Contains(ports, port) }) {
		t.Errorf("%v while these are in use, error %v", again, err)
	}
}
