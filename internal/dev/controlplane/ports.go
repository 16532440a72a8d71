// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net"
)

const loopback = "127.0.0.1"

// freePorts finds TCP ports on the loopback address that nobody listens on. They are all
// held until the last is found, so that they differ.
func freePorts(count int) (_ []int, failure error) {
	ports := make([]int, count)
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			failure = errors.Join(failure, listener.Close())
		}
	}()
	for i := range ports {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, listener)
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// address is a URL on the loopback address.
func address(port int) string {
	return fmt.Sprintf("https://%s:%d", loopback, port)
}
