// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if err := utilfeature.DefaultMutableFeatureGate.Set("KueueDRAIntegrationConsumableCapacity=true"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
