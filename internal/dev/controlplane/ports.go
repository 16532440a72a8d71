// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

const loopback = "127.0.0.1"

// Ports are taken from these. The kernel has later ones for connections, and programs for listeners on any port. One of
// them could take a port between the search and the start of the component that is to listen there.
const firstPort, lastPort = 10_000, 32_767

// freePorts finds different TCP ports on the loopback address that nobody listens on.
func freePorts(count int) (_ []int, failure error) {
	var ports []int
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			failure = errors.Join(failure, listener.Close())
		}
	}()
	for range 100 * count {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			continue
		case err != nil:
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held, ports = append(held, listener), append(ports, port)
		if len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("%d free ports from %d to %d were not found", count, firstPort, lastPort)
}

// address is a URL on the loopback address.
func address(port int) string {
	return fmt.Sprintf("https://%s:%d", loopback, port)
}
