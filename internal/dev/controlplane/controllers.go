// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"strings"
)

// neededControllers are those without which claims, pods, what makes them, and namespaces do
// not come and go.
// Those that watch over nodes are left out: nobody would send heartbeats.
var neededControllers = []string{
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"device-taint-eviction-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"podgroup-protection-controller",
	"replicaset-controller",
	"resourceclaim-controller",
	"resourcepoolstatusrequest-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"statefulset-controller",
}

func (p *ControlPlane) launchControllers(ctx context.Context) error {
	kubeconfig, err := p.WriteIdentity("kube-controller-manager", controllersUser)
	if err != nil {
		return err
	}
	p.controllers, err = launch(p.folder, "kube-controller-manager", p.options.Binaries.ControllerManager, append(p.secureServing(p.ports.controllers, nil),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--controllers="+strings.Join(neededControllers, ","),
		// Pods on kubelets wait for this certificate, unless they have no token.
		"--root-ca-file="+p.path(trustedCertificate),
		// Each controller with its own role, as in a real cluster.
		"--use-service-account-credentials",
		"--leader-elect=false",
		// There is one user, who waits.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	))
	if err != nil {
		return err
	}
	return p.controllers.await(ctx, p.ready(p.ports.controllers, "/healthz"))
}
