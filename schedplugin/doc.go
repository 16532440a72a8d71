// Package schedplugin is the kube-scheduler plugin of Dray: it takes the place of the
// in-tree DynamicResources plugin.
package schedplugin
