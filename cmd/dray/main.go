// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dray allocates devices to Kubernetes ResourceClaims, explains why it cannot,
// and lists what devices there are. Installed as kubectl-dray it is a kubectl plugin.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	status := cli.Main(ctx, os.Args, cli.StandardStreams())
	stop()
	os.Exit(status)
}
