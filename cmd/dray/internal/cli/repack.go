// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyapi "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate/moves"
)

// stepAnswer is a pod that goes from one node to another.
type stepAnswer struct {
	Pod string `json:"pod"`
	// From is absent if the pod left in an earlier step, To if it has no place until a later one.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Devices are those that it gets, as driver/pool/device.
	Devices []string `json:"devices,omitempty"`
}

func newSimulateRepack(o *origin) *cobra.Command {
	var wanted, script string
	var anyPriority bool
	command := simulateCommand(&cobra.Command{
		Use:   "repack --for POD|podgroup/NAME",
		Short: "Tell which pods to move so that a pod or group fits, and in which order",
		Long: `Tell which pods to move so that a pod fits, or as many pods of a PodGroup as it needs.
They are those that cost least, in an order in which every step is possible. Others that
wait are left aside, and so is what the pods of a group must have in common. Nothing is
moved: --script writes the evictions into a file for you to run.

Moving a pod costs 1, or what its annotation ` + cluster.MoveCostAnnotation + `
says. Pods of a higher priority than those that are to fit stay, unless --any-priority
is given. Pods of DaemonSets, mirror pods and pods without a controller stay, too, and so
do those with the annotation cluster-autoscaler.kubernetes.io/safe-to-evict "false".

At no time are more pods without a place than their PodDisruptionBudgets allow.

Exit status: 0 if there is a way, 1 if none was found, 2 for wrong usage or input.`,
		Example: `  # Which pods have to move for this one?
  dray simulate repack --for trainer-0 -n ml

  # For a group, with a script that evicts them
  dray simulate repack --for podgroup/trainers --script evict.sh -f cluster/`,
		Args: noArguments,
	}, nil, func(ctx context.Context, _ []string, f *output) error {
		if wanted == "" {
			return errors.New("--for is missing: name a pod or podgroup/NAME")
		}
		s, err := o.simulation(ctx, nil)
		if err != nil {
			return err
		}
		queue, err := s.queue([]string{wanted}, o)
		if err != nil {
			return fmt.Errorf("--for: %w", err)
		}
		q, err := s.repacking(ctx, o, queue[0].pods, anyPriority)
		if err != nil {
			return err
		}
		plan, err := moves.Find(ctx, s.state, *q)
		if err != nil {
			return err
		}
		if script != "" && plan.Possible {
			if err := writeScript(script, wanted, plan); err != nil {
				return fmt.Errorf("--script: %w", err)
			}
		}
		return s.showPlan(o, f, wanted, plan)
	})
	flags := command.Flags()
	flags.StringVar(&wanted, "for", "", "the pod, or podgroup/NAME, that is to fit")
	flags.StringVar(&script, "script", "", "write the evictions into this file, a shell script")
	flags.BoolVar(&anyPriority, "any-priority", false, "move pods of higher priority, too")
	// It fails only for flags that do not exist.
	_ = command.RegisterFlagCompletionFunc("for", o.completeSubject)
	return command
}

// repacking is the question for some pods.
func (s *simulation) repacking(ctx context.Context, o *origin, wanted []*corev1.Pod, anyPriority bool) (*moves.Question, error) {
	q := &moves.Question{Wanted: wanted}
	for _, node := range s.Nodes {
		q.Nodes = append(q.Nodes, node.Name)
	}
	priority := int32(math.MaxInt32)
	for _, pod := range wanted {
		s.addNotLookedAt(pod, nodefit.NotLookedAt(pod))
		priority = min(priority, priorityOf(pod))
	}
	costs := make(map[*corev1.Pod]float64)
	for _, pod := range s.Running() {
		cost, err := cluster.MoveCost(pod)
		if err != nil {
			o.streams.note("warning: it stays: %v", err)
		}
		if err == nil && (anyPriority || priorityOf(pod) <= priority) {
			costs[pod] = cost
		}
	}
	q.Cost = func(pod *corev1.Pod) float64 {
		if cost, found := costs[pod]; found {
			return cost
		}
		return math.Inf(1)
	}
	budgets, err := o.budgets(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	q.Limits, err = s.Limits(budgets)
	return q, err
}

// showPlan prints the steps, what they cost, and whether there is a cheaper way.
func (s *simulation) showPlan(o *origin, f *output, wanted string, plan *moves.Plan) error {
	var rows [][]string
	var items []any
	for i := range plan.Steps {
		step := &plan.Steps[i]
		answer := stepAnswer{Pod: podName(step.Pod), Devices: devicesOf(step.Claims)}
		from, to := "no place", "no place"
		if !step.Returns() {
			answer.From, from = step.From.Name(), step.From.Name()
		}
		if !step.Leaves() {
			answer.To, to = step.To.Name(), step.To.Name()
		}
		rows = append(rows, []string{answer.Pod, from, to, orNone(strings.Join(answer.Devices, ","))})
		items = append(items, answer)
	}
	places := make([]drainAnswer, len(plan.Places))
	for i, place := range plan.Places {
		places[i] = drainAnswer{podName(place.Pod), place.Node.Name()}
	}
	more := map[string]any{"possible": plan.Possible, "exact": plan.Exact(), "cost": plan.Cost, "room": plan.Room, "places": places}
	if !math.IsInf(plan.Bound, 1) {
		more["bound"] = plan.Bound
	}
	if err := s.showWith(o, f, "SimulatedRepack", []string{"POD", "FROM", "TO", "DEVICES"}, rows, items, more); err != nil {
		return err
	}
	o.streams.note("%s", summary(wanted, plan))
	if !plan.Possible {
		return errNotPlaced
	}
	return nil
}

// summary says in one line how good a plan is.
func summary(wanted string, plan *moves.Plan) string {
	switch {
	case !plan.Possible && plan.Exact():
		return wanted + " does not fit, whichever pods move"
	case !plan.Possible:
		return fmt.Sprintf("%s: no way was found that costs less than %s; others were not looked at", wanted, number(plan.Bound))
	case len(plan.Steps) == 0:
		return wanted + " fits as it is"
	}
	text := fmt.Sprintf("%s fits after %s, which costs %s", wanted, render.Count(len(plan.Pods), "move"), number(plan.Cost))
	if plan.Exact() {
		text += ", and nothing less will do"
	} else {
		text += "; no way costs less than " + number(plan.Bound)
	}
	if plan.Room > 0 {
		text += fmt.Sprintf("; between steps, %s without a place", render.Count(plan.Room, "pod"))
	}
	return text
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// devicesOf lists the devices of claims.
func devicesOf(claims []*resourceapi.ResourceClaim) []string {
	var names []string
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			names = append(names, result.Driver+"/"+result.Pool+"/"+result.Device)
		}
	}
	return names
}

// writeScript writes the evictions of a plan.
func writeScript(path, wanted string, plan *moves.Plan) error {
	text, err := evictions(wanted, plan)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o700)
}

// scriptHead defines what the lines of a script use. The API server refuses an eviction for which a PodDisruptionBudget leaves
// no room; then the script ends.
const scriptHead = `#!/bin/sh
# Evicts pods one after the other so that %s fits. After each, see that the pod that takes its place
# runs where this says, then go on with Enter. kube-scheduler decides where it goes: cordon the other nodes if it
# would choose another one.
set -eu
evict() {
	printf '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"namespace":"%%s","name":"%%s"}}' "$1" "$2" |
		kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" -f -
	echo "$3"
	read -r _
}
`

// evictions is a shell script that evicts the pods of a plan. The error names a pod of which the name is none.
func evictions(wanted string, plan *moves.Plan) (string, error) {
	var script strings.Builder
	fmt.Fprintf(&script, scriptHead, fmt.Sprintf("%q", wanted))
	for i := range plan.Steps {
		step := &plan.Steps[i]
		pod := step.Pod
		for _, name := range []string{pod.Namespace, pod.Name, step.From.Name(), step.To.Name()} {
			if wrong := validation.IsDNS1123Subdomain(name); name != "" && len(wrong) > 0 {
				return "", fmt.Errorf("pod %s: %q is not a name: %s", podName(pod), name, wrong[0])
			}
		}
		goes := "Its successor goes to " + step.To.Name()
		switch {
		case step.Returns():
			fmt.Fprintf(&script, "echo 'The successor of %s goes to %s'\nread -r _\n", podName(pod), step.To.Name())
			continue
		case step.Leaves():
			goes = "Its successor waits until later steps are done"
		}
		fmt.Fprintf(&script, "evict %s %s '%s'\n", pod.Namespace, pod.Name, goes)
	}
	return script.String(), nil
}

// budgets are the PodDisruptionBudgets of the files, or of the cluster, as far as they may be listed.
func (o *origin) budgets(ctx context.Context, c *cluster.Cluster) ([]*policyapi.PodDisruptionBudget, error) {
	if !o.live() {
		return c.Budgets(), nil
	}
	client, _, err := o.client()
	if err != nil {
		return nil, err
	}
	all, err := client.PolicyV1().PodDisruptionBudgets(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		o.streams.note("warning: list PodDisruptionBudgets: not permitted in all namespaces: those of others than %s are not known", o.namespace())
		all, err = client.PolicyV1().PodDisruptionBudgets(o.namespace()).List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	budgets := make([]*policyapi.PodDisruptionBudget, len(all.Items))
	for i := range all.Items {
		budgets[i] = &all.Items[i]
	}
	return budgets, nil
}
