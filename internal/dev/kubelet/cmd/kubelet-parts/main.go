// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubelet-parts runs the parts of kubelet that drivers speak to, as kubelet has
// them: the device manager, the manager of DRA claims, the plugin manager that finds
// drivers by their sockets, and the pod-resources server. There is no container runtime, and
// pods are what standard input says.
//
// Each line of standard input is a Request, each line of standard output the Answer to it. The
// process keeps its state in --dir, as kubelet does in /var/lib/kubelet: another process with
// the same folder is a kubelet that was restarted. It ends with its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dray-project/dray/internal/dev/kubelet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-parts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir := flag.String("dir", "", "kubelet's folder")
	node := flag.String("node", "", "the node's name")
	kubeconfig := flag.String("kubeconfig", "", "file that says how to reach the API server")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	parts, err := kubelet.Start(ctx, client, *node, *dir)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var request kubelet.Request
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return err
		}
		if err := answers.Encode(parts.Do(ctx, &request)); err != nil {
			return err
		}
	}
	return lines.Err()
}
