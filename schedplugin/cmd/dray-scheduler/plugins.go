package main

import "k8s.io/kubernetes/cmd/kube-scheduler/app"

// plugins are those that profiles can enable besides the ones in the tree.
var plugins []app.Option
