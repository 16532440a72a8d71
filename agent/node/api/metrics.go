// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// PrometheusTextFormatContentType is the content type of the responses of HandlePodMetricsResource.
const PrometheusTextFormatContentType = "text/plain; version=0.0.4"

// PodStatsSummaryHandlerFunc returns the resource usage of the node and its pods.
type PodStatsSummaryHandlerFunc func(context.Context) (*statsv1alpha1.Summary, error)

// PodMetricsResourceHandlerFunc returns the resource usage of the node and its pods as Prometheus
// metrics.
type PodMetricsResourceHandlerFunc func(context.Context) ([]*dto.MetricFamily, error)

// HandlePodStatsSummary serves the summary as JSON, as kubelet's /stats/summary.
func HandlePodStatsSummary(h PodStatsSummaryHandlerFunc) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return handlerOf(func(w http.ResponseWriter, r *http.Request) error {
		summary, err := h(r.Context())
		if err != nil {
			return fmt.Errorf("error getting status from provider: %w", err)
		}
		return writeJSON(w, summary)
	})
}

// HandlePodMetricsResource serves metrics in Prometheus' text format, as kubelet's
// /metrics/resource.
func HandlePodMetricsResource(h PodMetricsResourceHandlerFunc) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return handlerOf(func(w http.ResponseWriter, r *http.Request) error {
		families, err := h(r.Context())
		if err != nil {
			return fmt.Errorf("error getting status from provider: %w", err)
		}
		var text bytes.Buffer
		for _, family := range families {
			if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
				return fmt.Errorf("metrics of the provider: %w", err)
			}
		}
		w.Header().Set("Content-Type", PrometheusTextFormatContentType)
		_, _ = w.Write(text.Bytes()) // an error means that the client has disconnected
		return nil
	})
}
