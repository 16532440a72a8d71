// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	deviceCount = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "dray_agent_devices",
		Help:           "Devices of the node.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver", "healthy"})
	sliceWrites = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "dray_agent_resourceslice_writes",
		Help:           "Successful writes of ResourceSlices since the start.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver", "verb"})
	sliceRepairs = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "dray_agent_resourceslice_repairs",
		Help:           "How often ResourceSlices were put right since the start, because somebody else had written or deleted them. It grows while two agents publish for one node.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})
	heldDevices = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "dray_agent_devices_in_use",
		Help:           "Users of devices, by the interface of kubelet that handed them out.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver", "front"})
	conflictCount = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "dray_agent_device_conflicts",
		Help:           "Pairs of users of a device, one through each interface of kubelet. None of them hands it out until one user gives it back.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})
)

func init() {
	legacyregistry.MustRegister(deviceCount, sliceWrites, sliceRepairs, heldDevices, conflictCount)
}

// listenForStatus returns a listener for metrics and health, or nil if the address is empty.
func listenForStatus(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return listener, nil
}

// serveStatus serves metrics and health until ctx is done.
func (a *agent) serveStatus(ctx context.Context, cancel context.CancelCauseFunc) {
	if a.status == nil {
		return
	}
	server := &http.Server{Handler: a.statusHandler(), ReadHeaderTimeout: 10 * time.Second}
	a.running.Go(func() {
		if err := server.Serve(a.status); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve metrics and health: %w", err))
		}
	})
	context.AfterFunc(ctx, func() { _ = server.Close() })
}

func (a *agent) statusHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(a.node.Healthy))
	mux.HandleFunc("GET /readyz", answer(a.node.Ready))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, request *http.Request) {
		a.setMetrics()
		legacyregistry.Handler().ServeHTTP(w, request)
	})
	return mux
}

// answer returns a handler that responds with the error of ask, or with ok.
func answer(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := ask(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

func (a *agent) setMetrics() {
	for _, gauge := range []*metrics.GaugeVec{deviceCount, sliceWrites, sliceRepairs, heldDevices, conflictCount} {
		gauge.Reset()
	}
	if in := a.node.Inventory(); in != nil {
		for i := range in.Devices {
			deviceCount.WithLabelValues(in.Devices[i].Driver, fmt.Sprint(!in.Devices[i].Health.Unhealthy)).Inc()
		}
	}
	for _, hold := range a.node.Holds() {
		heldDevices.WithLabelValues(hold.Device.Driver, string(hold.Front)).Inc()
	}
	for name, conflicts := range a.node.Conflicts() {
		conflictCount.WithLabelValues(name).Set(float64(len(conflicts)))
	}
	for name, stats := range a.node.Stats() {
		sliceWrites.WithLabelValues(name, "create").Set(float64(stats.NumCreates))
		sliceWrites.WithLabelValues(name, "update").Set(float64(stats.NumUpdates))
		sliceWrites.WithLabelValues(name, "delete").Set(float64(stats.NumDeletes))
	}
	for name, repairs := range a.node.Repairs() {
		sliceRepairs.WithLabelValues(name).Set(float64(repairs))
	}
}
