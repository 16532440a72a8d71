// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	draclient "k8s.io/dynamic-resource-allocation/client"

	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// claimsInterval is the pause between attempts to list claims.
const claimsInterval = 5 * time.Second

// rebuild fills the ledger until it knows all users of devices. It returns false if ctx ends
// before.
func (d *driverServer) rebuild(ctx context.Context, ledger *inventory.Ledger, kubelet *kubelet) bool {
	for slices.Contains(ledger.Unknown(), inventory.FrontDRA) {
		err := d.rebuildClaims(ctx, ledger)
		if err == nil {
			break
		}
		d.rebuildProblems.set(ctx, "users", fmt.Sprintf("the users of claims' devices: %v", err))
		select {
		case <-ctx.Done():
			return false
		case <-time.After(claimsInterval):
		}
	}
	if !slices.Contains(ledger.Unknown(), inventory.FrontDevicePlugin) {
		d.closeRebuilt.Do(func() { close(d.rebuilt) })
		return true
	}
	kubelet.wakeUp()
	select {
	case <-ctx.Done():
		return false
	case <-d.rebuilt:
		return true
	}
}

func (d *driverServer) rebuildClaims(ctx context.Context, ledger *inventory.Ledger) error {
	claims, err := d.claims(ctx)
	if err != nil {
		return err
	}
	holds, err := draplugin.HoldsOfClaims(d.in.Load(), d.name, d.options.CDIDir, claims)
	if err != nil {
		return err
	}
	return ledger.Rebuild(inventory.FrontDRA, holds)
}

// listClaims lists the claims of all namespaces from the API server.
func (o *Options) listClaims(ctx context.Context) ([]resourceapi.ResourceClaim, error) {
	claims, err := draclient.New(o.Client).ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ResourceClaims: %w", err)
	}
	return claims.Items, nil
}

// handleObservation updates the ledger with the answers of kubelet and the API server.
func (d *driverServer) handleObservation(ctx context.Context, view *observation) {
	ledger := d.ledger.Load()
	if ledger == nil || slices.Contains(ledger.Unknown(), inventory.FrontDRA) {
		return // the claims' devices come first
	}
	if slices.Contains(ledger.Unknown(), inventory.FrontDevicePlugin) {
		if err := d.rebuildPlugin(ledger, view); err != nil {
			d.rebuildProblems.set(ctx, "users", fmt.Sprintf("the users of the device plugin's devices: %v", err))
			return
		}
	}
	d.rebuildProblems.set(ctx, "users", "")
	d.closeRebuilt.Do(func() { close(d.rebuilt) })
	d.problems.set(ctx, "free", view.whyNothingIsFree())
	if view.hadGap {
		d.plugin.Silent()
	}
	if view.answer != nil {
		if err := d.plugin.SetInUse(view.report); err != nil {
			d.problems.set(ctx, "kubelet", fmt.Sprintf("The ledger does not follow kubelet: %v", err))
		} else {
			d.problems.set(ctx, "kubelet", "")
		}
	}
}

// rebuildPlugin fills the ledger with the users of plugin devices.
func (d *driverServer) rebuildPlugin(ledger *inventory.Ledger, view *observation) error {
	switch {
	case d.options.NoKubelet:
		return ledger.Rebuild(inventory.FrontDevicePlugin, nil)
	case view.podsErr != nil:
		return view.podsErr
	case view.answer != nil && d.ledgerLost:
		// Pods that were force-deleted before this process started may still run, for up to a
		// minute. So no device is reported free yet.
		return d.plugin.Rebuild(devicetree.Report{Asked: view.report.Asked, InUse: view.report.InUse})
	case view.answer != nil:
		return d.plugin.Rebuild(view.report)
	}
	if !view.noSocket {
		return view.kubeletErr
	}
	// Kubelet has not started on this node, or its socket is not mounted here.
	if pod := podresources.Wants(view.pods, func(resource string) bool { return strings.HasPrefix(resource, d.name+"/") }); pod != "" {
		return fmt.Errorf("pod %s is to have some, and kubelet's socket %s is not there", pod, d.options.podResources())
	}
	return ledger.Rebuild(inventory.FrontDevicePlugin, nil)
}
