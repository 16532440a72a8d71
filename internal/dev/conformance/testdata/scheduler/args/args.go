// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package args has the arguments of one plugin for the other.
package args

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	drayconfig "github.com/dray-project/dray/schedplugin/config"
)

// Of returns arguments for Dray that mean what those of the in-tree plugin mean.
func Of(args *config.DynamicResourcesArgs) (*runtime.Unknown, error) {
	raw, err := json.Marshal(struct {
		metav1.TypeMeta
		FilterTimeout  *metav1.Duration `json:"filterTimeout,omitempty"`
		BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`
	}{
		metav1.TypeMeta{APIVersion: drayconfig.ArgsAPIVersion, Kind: drayconfig.ArgsKind}, args.FilterTimeout, args.BindingTimeout,
	})
	return &runtime.Unknown{Raw: raw}, err
}
