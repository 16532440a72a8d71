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

// PrometheusTextFormatContentType is the type of what HandlePodMetricsResource answers.
const PrometheusTextFormatContentType = "text/plain; version=0.0.4"

// PodStatsSummaryHandlerFunc returns what the node and its pods use.
type PodStatsSummaryHandlerFunc func(context.Context) (*statsv1alpha1.Summary, error)

// PodMetricsResourceHandlerFunc returns what the node and its pods use as metrics.
type PodMetricsResourceHandlerFunc func(context.Context) ([]*dto.MetricFamily, error)

// HandlePodStatsSummary answers in JSON, as kubelet's /stats/summary.
func HandlePodStatsSummary(h PodStatsSummaryHandlerFunc) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return answering(func(w http.ResponseWriter, r *http.Request) error {
		summary, err := h(r.Context())
		if err != nil {
			return fmt.Errorf("error getting status from provider: %w", err)
		}
		return writeJSON(w, summary)
	})
}

// HandlePodMetricsResource answers in Prometheus' text format, as kubelet's /metrics/resource.
func HandlePodMetricsResource(h PodMetricsResourceHandlerFunc) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return answering(func(w http.ResponseWriter, r *http.Request) error {
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
		_, _ = w.Write(text.Bytes()) // a client that is gone needs no answer
		return nil
	})
}
