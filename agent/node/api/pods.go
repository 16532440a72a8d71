// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodListerFunc returns pods. Callers do not modify them.
type PodListerFunc func(context.Context) ([]*corev1.Pod, error)

// HandleRunningPods serves the list of pods as JSON, as kubelet does.
func HandleRunningPods(getPods PodListerFunc) http.HandlerFunc {
	if getPods == nil {
		return NotImplemented
	}
	return handlerOf(func(w http.ResponseWriter, r *http.Request) error {
		pods, err := getPods(r.Context())
		if err != nil {
			return err
		}
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
		for _, pod := range pods {
			list.Items = append(list.Items, *pod)
		}
		return writeJSON(w, list)
	})
}

// writeJSON writes a value as the response. Nothing is sent if the value cannot be encoded.
func writeJSON(w http.ResponseWriter, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // an error means that the client has disconnected
	return nil
}
