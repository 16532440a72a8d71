// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// stepAnswer is the move of a pod from one node to another.
type stepAnswer struct {
	Pod string `json:"pod"`
	// From is empty if the pod was evicted in an earlier step. To is empty if it gets a place only
	// in a later one.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Devices are the devices that the pod gets, as driver/pool/device.
	Devices []string `json:"devices,omitempty"`
}

// freeAnswer says how many nodes or devices are free.
type freeAnswer struct {
	Before int `json:"before"`
	After  int `json:"after"`
	// Most is an upper bound of how many can be free.
	Most int `json:"most"`
	// Freed are the nodes, or devices as driver/pool/device, that are free only after the steps.
	Freed []string `json:"freed,omitempty"`
}

func newSimulateRepack(o *origin) *cobra.Command {
	r := &repack{origin: o}
	command := simulateCommand(&cobra.Command{
		Use:   "repack --for POD|podgroup/NAME | --goal nodes|devices",
		Short: "Tell which pods to move so that others fit or nodes are empty, and in which order",
		Long: `Tell which pods to move so that a pod fits, or as many pods of a PodGroup as it needs.
They are those that cost least, in an order in which every step is possible. The pods of
a group get what they must have in common: a label of their nodes and attributes of
their devices. Others that wait are left aside. Nothing is moved: --script writes the
evictions into a file for you to run.

With --goal nodes, as many nodes as possible have no pods in the end, but those of
DaemonSets and mirror pods. With --goal devices, as many whole devices as possible are
not in use in the end. A device is whole if it is no part of another one. The answer says
how many there can be at most. That is proven for few pods and nodes; for others it is a
bound, and there may be a better way.

Moving a pod costs 1, or what its annotation ` + cluster.MoveCostAnnotation + `
says. Pods of a higher priority than those that are to fit stay, unless --any-priority
is given. With --goal, that is a priority above 0. Pods of DaemonSets, mirror pods and
pods without a controller stay, too, and so do those with the annotation
cluster-autoscaler.kubernetes.io/safe-to-evict "false". So do pods that must have
something in common with the other pods of their PodGroup.

At no time are more pods without a place than their PodDisruptionBudgets allow.

Exit status: 0 if there is a way, 1 if there is none, 2 for wrong usage or input. 3 if none
was found, which is no proof.`,
		Example: `  # Which pods have to move for this one?
  dray simulate repack --for trainer-0 -n ml

  # For a group, with a script that evicts them
  dray simulate repack --for podgroup/trainers --script evict.sh -f cluster/

  # How many nodes can be empty, and which pods move for that?
  dray simulate repack --goal nodes -f cluster/

  # How many whole devices, where pods have parts of them?
  dray simulate repack --goal devices -f cluster/`,
		Args: noArguments,
	}, nil, r.run)
	flags := command.Flags()
	flags.StringVar(&r.wanted, "for", "", "the pod, or podgroup/NAME, that is to fit")
	flags.StringVar(&r.goal, "goal", "", "what is to be free: nodes or devices")
	flags.StringVar(&r.script, "script", "", "write the evictions into this file, a shell script")
	flags.BoolVar(&r.anyPriority, "any-priority", false, "move pods of higher priority, too")
	// an error means that the flag does not exist
	_ = command.RegisterFlagCompletionFunc("for", o.completeSubject)
	_ = command.RegisterFlagCompletionFunc("goal", cobra.FixedCompletions([]string{"nodes", "devices"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// repack has the flags of the command.
type repack struct {
	origin       *origin
	wanted, goal string
	script       string
	anyPriority  bool
}

// goals are the values of --goal.
var goals = map[string]moves.Goal{"nodes": moves.Nodes, "devices": moves.WholeDevices}

func (r *repack) run(ctx context.Context, _ []string, f *output) error {
	goal, known := goals[r.goal]
	switch {
	case (r.wanted == "") == (r.goal == ""):
		return errors.New("want either --for, with a pod or podgroup/NAME, or --goal")
	case r.goal != "" && !known:
		return fmt.Errorf("--goal %q: want nodes or devices", r.goal)
	}
	s, err := r.origin.simulation(ctx, nil)
	if err != nil {
		return err
	}
	if r.goal != "" {
		return r.free(ctx, s, f, goal)
	}
	queue, err := s.queue([]string{r.wanted}, r.origin)
	if err != nil {
		return fmt.Errorf("--for: %w", err)
	}
	s.addNotLookedAt(queue[0].pods[0], queue[0].notLookedAt)
	least := int32(math.MaxInt32)
	for _, pod := range queue[0].pods {
		s.addNotLookedAt(pod, nodefit.NotLookedAt(pod))
		least = min(least, priorityOf(pod))
	}
	q, err := r.question(ctx, s, least)
	if err != nil {
		return err
	}
	q.Wanted, q.Gang, q.Topologies = queue[0].pods, queue[0].kind == "PodGroup", queue[0].topologies
	p := newProgress(r.origin.streams.Err, "looking for moves", -1)
	plan, err := moves.Find(ctx, s.state, *q)
	p.done()
	if err != nil {
		return err
	}
	if err := r.writeScript(fmt.Sprintf("%q fits", r.wanted), plan); err != nil {
		return err
	}
	places := make([]drainAnswer, len(plan.Places))
	for i, place := range plan.Places {
		places[i] = drainAnswer{podName(place.Pod), place.Node.Name()}
	}
	if err := s.showPlan(r.origin, f, plan, plan.Exact(), map[string]any{"places": places}); err != nil {
		return err
	}
	r.origin.streams.note("%s", summary(r.wanted, plan))
	if !plan.Possible {
		return notPlaced(!plan.Exact())
	}
	return nil
}

// free handles --goal.
func (r *repack) free(ctx context.Context, s *simulation, f *output, goal moves.Goal) error {
	q, err := r.question(ctx, s, 0)
	if err != nil {
		return err
	}
	for _, pod := range s.Running() {
		if cost := q.Cost(pod); !math.IsInf(cost, 1) {
			s.addNotLookedAt(pod, nodefit.NotLookedAt(pod))
		}
	}
	p := newProgress(r.origin.streams.Err, "looking for moves", -1)
	plan, err := moves.Free(ctx, s.state, goal, *q)
	p.done()
	if err != nil {
		return err
	}
	if err := r.writeScript("more "+r.goal+" are free", &plan.Plan); err != nil {
		return err
	}
	answer := freeAnswer{Before: plan.Before, After: plan.After, Most: plan.Most}
	for _, target := range plan.Freed {
		answer.Freed = append(answer.Freed, target.String())
	}
	if err := s.showPlan(r.origin, f, &plan.Plan, plan.Exact(), map[string]any{"goal": r.goal, "free": answer}); err != nil {
		return err
	}
	r.origin.streams.note("%s", freeSummary(r.goal, &answer, plan))
	if plan.After == plan.Before {
		return notPlaced(!plan.Exact())
	}
	return nil
}

// freeSummary returns a line about how close a plan is to the optimum.
func freeSummary(goal string, answer *freeAnswer, plan *moves.Freeing) string {
	what := strings.TrimSuffix(goal, "s")
	if goal == "devices" {
		what = "whole device"
	}
	text := fmt.Sprintf("%s free before, %d after %s, which costs %s", render.Count(answer.Before, what), answer.After, render.Count(len(plan.Pods), "move"), number(plan.Cost))
	if len(plan.Pods) == 0 {
		text = fmt.Sprintf("%s free", render.Count(answer.Before, what))
	}
	switch {
	case answer.After < answer.Most && len(plan.Pods) == 0:
		text += fmt.Sprintf(", and no moves were found that leave more; there are never more than %d", answer.Most)
	case answer.After < answer.Most:
		text += fmt.Sprintf("; there are never more than %d", answer.Most)
	case len(plan.Pods) == 0:
		text += "; no moves leave more free"
	case plan.Exact():
		text += "; no moves leave more free, or as many for less"
	default:
		text += "; no moves leave more free, or as many for less than " + number(plan.Bound)
	}
	if len(answer.Freed) > 0 {
		text += ". Freed: " + strings.Join(answer.Freed, ", ")
	}
	return text + roomNote(&plan.Plan)
}

// question returns a question about all nodes. Pods of a higher priority than the given one are not
// moved, unless --any-priority is set.
func (r *repack) question(ctx context.Context, s *simulation, priority int32) (*moves.Question, error) {
	q := &moves.Question{GoesWithNode: cluster.GoesWithNode}
	for _, node := range s.Nodes {
		q.Nodes = append(q.Nodes, node.Name)
	}
	costs := make(map[*corev1.Pod]float64)
	for _, pod := range s.Running() {
		cost, err := cluster.MoveCost(pod)
		if err != nil {
			r.origin.streams.note("warning: it stays: %v", err)
		}
		if s.HasCompanions(pod) {
			continue // each step moves one pod
		}
		if err == nil && (r.anyPriority || priorityOf(pod) <= priority) {
			costs[pod] = cost
		}
	}
	q.Cost = func(pod *corev1.Pod) float64 {
		if cost, found := costs[pod]; found {
			return cost
		}
		return math.Inf(1)
	}
	budgets, err := r.origin.budgets(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	q.Limits, err = s.Limits(budgets)
	return q, err
}

// showPlan prints the steps and their costs. more has additional fields of the document.
func (s *simulation) showPlan(o *origin, f *output, plan *moves.Plan, exact bool, more map[string]any) error {
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
	maps.Copy(more, map[string]any{"possible": plan.Possible, "exact": exact, "cost": plan.Cost, "room": plan.Room})
	if !math.IsInf(plan.Bound, 1) {
		more["bound"] = plan.Bound
	}
	return s.showWith(o, f, "SimulatedRepack", []string{"POD", "FROM", "TO", "DEVICES"}, rows, items, more)
}

// summary returns a line about how close a plan is to the optimum.
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
	return text + roomNote(plan)
}

// roomNote returns a line about pods that have no place between steps, or an empty string.
func roomNote(plan *moves.Plan) string {
	if plan.Room == 0 {
		return ""
	}
	return fmt.Sprintf("; between steps, %s without a place", render.Count(plan.Room, "pod"))
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

// writeScript writes the evictions of a plan to the file of --script, if that is set and there are
// any.
func (r *repack) writeScript(purpose string, plan *moves.Plan) error {
	if r.script == "" || !plan.Possible {
		return nil
	}
	text, err := evictions(purpose, plan)
	if err == nil {
		err = os.WriteFile(r.script, []byte(text), 0o700)
	}
	if err != nil {
		return fmt.Errorf("--script: %w", err)
	}
	return nil
}

// scriptHead defines the function that the lines of a script call. If a PodDisruptionBudget does
// not permit an eviction, the API server refuses it, and the script ends.
const scriptHead = `#!/bin/sh
# Evicts pods one after the other so that %s. After each, see that the pod that takes its place
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

// evictions returns a shell script that evicts the pods of a plan. It returns an error for an
// invalid pod name.
func evictions(purpose string, plan *moves.Plan) (string, error) {
	var script strings.Builder
	fmt.Fprintf(&script, scriptHead, purpose)
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

// budgets returns the PodDisruptionBudgets of the files, or of the cluster as far as the user may
// list them.
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
