// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/workload"
)

// subject is a pod or claim that dray explain explains.
type subject struct {
	workload cluster.Workload
	// settled describes the state of a workload that does not wait for devices. It is empty
	// otherwise.
	settled string
	// bypassed says that a settled pod does not get its devices, see Cluster.Bypassed.
	bypassed bool
}

// find parses POD, pod/NAME, claim/NAME, resourceclaim/NAME, and KIND/NAME for the pods that an
// object makes. Without -n, it also finds a name that exists in exactly one namespace.
func find(c *cluster.Cluster, argument string, o *origin) ([]*subject, error) {
	kind, name, qualified := strings.Cut(argument, "/")
	if !qualified {
		kind, name = "pod", argument
	}
	if name == "" {
		return nil, fmt.Errorf("%q: no name: want POD, claim/NAME or KIND/NAME", argument)
	}
	kind, _, _ = strings.Cut(kind, ".") // as in deployment.apps/NAME, which kubectl prints
	var s *subject
	var err error
	switch strings.ToLower(kind) {
	case "pod", "pods", "po":
		s, err = findPod(c, name, o)
	case "claim", "claims", "resourceclaim", "resourceclaims":
		s, err = findClaim(c, name, o)
	default:
		return findMade(c, kind, name, o)
	}
	if err != nil {
		return nil, err
	}
	return []*subject{s}, nil
}

// qualify converts the arguments KIND NAME..., which kubectl accepts, to KIND/NAME. If a pod has
// the name KIND, it is a pod.
func qualify(c *cluster.Cluster, args []string) []string {
	if len(args) < 2 || !isKind(args[0]) || slices.ContainsFunc(args, func(name string) bool { return strings.Contains(name, "/") }) ||
		slices.ContainsFunc(c.PodKeys(), func(key types.NamespacedName) bool { return key.Name == args[0] }) {
		return args
	}
	qualified := make([]string, 0, len(args)-1)
	for _, name := range args[1:] {
		qualified = append(qualified, args[0]+"/"+name)
	}
	return qualified
}

func isKind(word string) bool {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	word = strings.TrimSuffix(word, "s")
	if full, isShort := shortKinds[word]; isShort {
		word = full
	}
	return slices.Contains(knownKinds, word) || slices.ContainsFunc(workload.Makers(), func(kind string) bool { return strings.ToLower(kind) == word })
}

// knownKinds are the kinds of subjects, except kinds of objects that make pods.
var knownKinds = []string{
	"pod", "po", "node", "no", "claim", "resourceclaim", "replicaset", "statefulset", "daemonset", "job", "replicationcontroller", "virtualmachineinstance", "workflow",
}

// findMade returns the pods that an object has made or would make. As with pods, it also finds a
// name that exists in exactly one namespace.
func findMade(c *cluster.Cluster, kind, name string, o *origin) ([]*subject, error) {
	kind = strings.TrimSuffix(strings.ToLower(kind), "s")
	if full, isShort := shortKinds[kind]; isShort {
		kind = full
	}
	made := make(map[types.NamespacedName][]*subject) // by namespace and name of the object
	var objects []types.NamespacedName
	for _, key := range c.PodKeys() {
		pod := c.Pod(key)
		maker := types.NamespacedName{Namespace: key.Namespace, Name: workload.MadeBy(pod, kind)}
		if maker.Name == "" {
			continue
		}
		if made[maker] == nil {
			objects = append(objects, maker)
		}
		made[maker] = append(made[maker], subjectOf(c, pod))
	}
	object, err := resolve(kind, "has no pods", name, objects, o)
	if err != nil && o.live() {
		err = fmt.Errorf("%w (of a cluster, pods are read, and not what makes them: kubectl describe says why there are none)", err)
	}
	return made[object], err
}

// shortKinds are the short names of kinds in kubectl, without plurals.
var shortKinds = map[string]string{
	"deploy": "deployment", "r": "replicaset", "st": "statefulset", "d": "daemonset", "cj": "cronjob", "rc": "replicationcontroller",
	"lw": "leaderworkerset", "vm": "virtualmachine", "vmi": "virtualmachineinstance", "isvc": "inferenceservice", "wf": "workflow",
}

func findPod(c *cluster.Cluster, name string, o *origin) (*subject, error) {
	key, err := resolve("Pod", doesNotExist, name, c.PodKeys(), o)
	if err != nil {
		if _, noClaim := resolve("ResourceClaim", doesNotExist, name, c.ClaimKeys(), o); noClaim == nil {
			err = fmt.Errorf("%w; there is a ResourceClaim of that name: claim/%s", err, name)
		}
		return nil, err
	}
	return subjectOf(c, c.Pod(key)), nil
}

func subjectOf(c *cluster.Cluster, pod *corev1.Pod) *subject {
	s := &subject{workload: cluster.Workload{Pod: pod}}
	claim := c.Bypassed(pod)
	switch {
	case claim != "":
		s.bypassed = true
		s.settled = fmt.Sprintf("is on node %s, but claim %s has no devices: spec.nodeName was set, and the scheduler does not look at the pod", pod.Spec.NodeName, claim)
	case pod.Spec.NodeName != "":
		s.settled = "is on node " + pod.Spec.NodeName
	case !cluster.Pending(pod):
		s.settled = fmt.Sprintf("is not waiting to be placed (phase %s)", pod.Status.Phase)
	case !cluster.UsesDevices(pod):
		s.settled = "uses no claims and no extended resources"
	}
	return s
}

func findClaim(c *cluster.Cluster, name string, o *origin) (*subject, error) {
	key, err := resolve("ResourceClaim", doesNotExist, name, c.ClaimKeys(), o)
	if err != nil {
		return nil, err
	}
	s := &subject{workload: cluster.Workload{Claim: key}}
	s.settled = s.state(c)
	return s, nil
}

const doesNotExist = "does not exist"

// resolve returns the object with a name. missing is the reason in the error if it is unknown.
func resolve(kind, missing, name string, known []types.NamespacedName, o *origin) (types.NamespacedName, error) {
	wanted := types.NamespacedName{Namespace: o.namespace(), Name: name}
	if slices.Contains(known, wanted) {
		return wanted, nil
	}
	var namesakes []types.NamespacedName
	for _, key := range known {
		if key.Name == name && !o.namespaceGiven() {
			namesakes = append(namesakes, key)
		}
	}
	switch len(namesakes) {
	case 0:
		var names []string
		for _, key := range known {
			if o.covers(key) {
				names = append(names, key.Name)
			}
		}
		return wanted, fmt.Errorf("%s %s %s%s", kind, wanted, missing, hint(name, names))
	case 1:
		return namesakes[0], nil
	}
	var places []string
	for _, key := range namesakes {
		places = append(places, key.Namespace)
	}
	return wanted, errors.New(kind + " " + name + " exists in several namespaces, choose one with -n: " + strings.Join(places, ", "))
}

// state returns settled, or that the claim has been allocated meanwhile.
func (s *subject) state(c *cluster.Cluster) string {
	if s.settled != "" || s.workload.Pod != nil {
		return s.settled
	}
	claim := c.Claim(s.workload.Claim)
	if claim == nil || claim.Status.Allocation == nil {
		return ""
	}
	how := "is allocated"
	if consumers := claim.Status.ReservedFor; len(consumers) > 0 {
		names := make([]string, len(consumers))
		for i, consumer := range consumers {
			names[i] = consumer.Name
		}
		how += " and reserved for " + strings.Join(names, ", ")
	}
	return how
}
