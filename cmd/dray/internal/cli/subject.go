package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// subject is what dray explain is asked about.
type subject struct {
	workload cluster.Workload
	// settled says how things are if the workload is not waiting for anything.
	settled string
}

// find understands POD, pod/NAME, claim/NAME and resourceclaim/NAME. Without -n, a name
// that exists in one namespace only is found there.
func find(c *cluster.Cluster, argument string, o *origin) (*subject, error) {
	kind, name, qualified := strings.Cut(argument, "/")
	if !qualified {
		kind, name = "pod", argument
	}
	switch strings.ToLower(kind) {
	case "pod", "pods", "po":
		return findPod(c, name, o)
	case "claim", "claims", "resourceclaim", "resourceclaims":
		return findClaim(c, name, o)
	}
	return nil, fmt.Errorf("%s: want POD or claim/NAME", argument)
}

func findPod(c *cluster.Cluster, name string, o *origin) (*subject, error) {
	key, err := resolve("Pod", name, c.PodKeys(), o)
	if err != nil {
		return nil, err
	}
	pod := c.Pod(key)
	s := &subject{workload: cluster.Workload{Pod: pod}}
	switch {
	case pod.Spec.NodeName != "":
		s.settled = "is on node " + pod.Spec.NodeName
	case !cluster.Pending(pod):
		s.settled = fmt.Sprintf("is not waiting to be placed (phase %s)", pod.Status.Phase)
	case len(pod.Spec.ResourceClaims) == 0:
		s.settled = "uses no claims"
	}
	return s, nil
}

func findClaim(c *cluster.Cluster, name string, o *origin) (*subject, error) {
	key, err := resolve("ResourceClaim", name, c.ClaimKeys(), o)
	if err != nil {
		return nil, err
	}
	s := &subject{workload: cluster.Workload{Claim: key}}
	s.settled = s.state(c)
	return s, nil
}

// resolve finds the one object of that name.
func resolve(kind, name string, known []types.NamespacedName, o *origin) (types.NamespacedName, error) {
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
		return wanted, fmt.Errorf("%s %s does not exist", kind, wanted)
	case 1:
		return namesakes[0], nil
	}
	var places []string
	for _, key := range namesakes {
		places = append(places, key.Namespace)
	}
	return wanted, errors.New(kind + " " + name + " exists in several namespaces, choose one with -n: " + strings.Join(places, ", "))
}

// before lists the workloads that are placed first: for a claim that a pod uses, those
// before that pod.
func (s *subject) before(c *cluster.Cluster) []cluster.Workload {
	all := c.Workloads()
	for i, w := range all {
		if c.Uses(w, s.workload) {
			return all[:i]
		}
	}
	return all
}

// state is settled, or says that a claim has been allocated in the meantime.
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
