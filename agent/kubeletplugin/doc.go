// Package kubeletplugin runs a DRA driver beside kubelet and publishes its devices.
//
// # Contract
//
// The package offers the names, signatures and meaning of
// k8s.io/dynamic-resource-allocation/kubeletplugin v0.37, so that a driver changes an import
// path and nothing else. Kubelet is served by upstream's own helper: registration, the DRA
// service in all its versions, health, metadata of devices, and rolling updates are
// upstream's. What a driver publishes goes through the controller of package resourceslice,
// whose types are upstream's, too.
//
//	driver ── Start ──► Helper ─┬─► upstream's helper ─────► kubelet: register, prepare, health
//	                            └─► resourceslice.Controller ─► API server
//	                                  ▲
//	driver ── PublishResources ───────┘
//
// # Drivers written for Kubernetes 1.36
//
// They build as well. A driver without WatchHealthStatus reports no health, one that serves
// the health service of 1.36 (v1alpha1) goes on to do so, EnableDeviceMetadata may be called
// without versions, and MetadataVersions is there.
//
// What differs from upstream's package: DRAPlugin does not require WatchHealthStatus, and a
// program that calls that method of a DRAPlugin has to assert HealthWatcher first.
package kubeletplugin
