// Package deploy holds what it takes to run dray-scheduler.
package deploy

import _ "embed"

// SchedulerConfiguration is a KubeSchedulerConfiguration, as YAML, in which Dray takes the
// place of the plugin DynamicResources.
//
//go:embed scheduler-config.yaml
var SchedulerConfiguration []byte
