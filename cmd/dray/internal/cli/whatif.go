// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// victimsAnswer is pods of one node that have to go for another one.
type victimsAnswer struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
	// Least is set if no other pods of the node would be fewer, or of lower priority.
	Least bool `json:"least"`
}

func newSimulateVictims(o *origin) *cobra.Command {
	var most int
	var all, alone bool
	command := simulateCommand(&cobra.Command{
		Use:   "victims POD",
		Short: "Tell which pods would have to go for a pod to fit, node by node",
		Long: `Tell which pods would have to go for a pod to fit, node by node.

Only pods of lower priority than the pod's go, unless --any-priority is given, and
as few as possible. One pod of a higher priority counts more than all pods of lower
ones. Pods of DaemonSets and mirror pods stay. What comes before the pod in the
order of "dray allocate" is placed first and stays, unless --alone is given. This is
not what kube-scheduler's preemption would do in every case: it also looks at
PodDisruptionBudgets and start times.

Exit status: 0 if there is a node, 1 if there is none, 2 for wrong usage or input.`,
		Example: `  # Who is in the way of this pod?
  dray simulate victims trainer-0 -n ml

  # Also among pods that are as important, on up to ten nodes
  dray simulate victims trainer-0 --any-priority --nodes 10 -f cluster/`,
		Args:              someArguments("POD", 1, 1),
		ValidArgsFunction: o.completeSubject,
	}, nil, func(ctx context.Context, args []string, f *output) error {
		if most < 1 {
			return fmt.Errorf("--nodes %d: want 1 or more", most)
		}
		s, err := o.simulation(ctx, nil)
		if err != nil {
			return err
		}
		subjects, err := find(s.Cluster, args[0], o)
		if err != nil {
			return err
		}
		pod := subjects[0].workload.Pod
		if pod == nil || pod.Spec.NodeName != "" {
			return fmt.Errorf("%s: want a pod that has no node", args[0])
		}
		s.addNotLookedAt(pod, nodefit.NotLookedAt(pod))
		before, err := s.placeBefore(ctx, pod, alone)
		if err != nil {
			return err
		}
		sets, err := s.victims(ctx, pod, all, most)
		if err != nil {
			return err
		}
		var rows [][]string
		var items []any
		for _, set := range sets {
			answer := victimsAnswer{Node: set.Node.Name(), Least: set.Least, Victims: []string{}}
			for _, victim := range set.Pods {
				answer.Victims = append(answer.Victims, podName(victim))
			}
			rows = append(rows, []string{answer.Node, strconv.Itoa(len(answer.Victims)), yesNo(answer.Least), orNone(strings.Join(answer.Victims, ","))})
			items = append(items, answer)
		}
		if before > 0 {
			o.streams.note("looked at after placing the %s before it; --alone leaves them out", render.Count(before, "pod"))
		}
		more := map[string]any{"placedBefore": before}
		if err := s.showWith(o, f, "SimulatedVictimsList", []string{"NODE", "PODS", "LEAST", "VICTIMS"}, rows, items, more); err != nil || len(sets) > 0 {
			return err
		}
		return s.noVictims(ctx, o, pod, all)
	})
	command.Flags().IntVar(&most, "nodes", 3, "tell of at most so many nodes, those with the cheapest victims first")
	command.Flags().BoolVar(&all, "any-priority", false, "let pods of the same and of higher priority go, too")
	command.Flags().BoolVar(&alone, "alone", false, "do not place what comes before it first")
	return command
}

// placeBefore places the pods that come before one, as dray explain does, unless alone is set, and returns how many have
// a place.
func (s *simulation) placeBefore(ctx context.Context, pod *corev1.Pod, alone bool) (placed int, err error) {
	if alone {
		return 0, nil
	}
	sim := s.state.Sim()
	for _, earlier := range s.PendingPods() {
		if earlier == pod {
			break
		}
		shapes, err := s.state.Shapes([]*corev1.Pod{earlier})
		if err != nil {
			continue // it was left out
		}
		result, err := sim.PlaceMany(ctx, shapes[0], 1, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			return 0, err
		}
		placed += result.Placed
	}
	s.state = sim.State()
	return placed, nil
}

// noVictims says that no node would do, and whether that is for the priorities.
func (s *simulation) noVictims(ctx context.Context, o *origin, pod *corev1.Pod, anyPriority bool) error {
	if anyPriority {
		o.streams.note("%s fits on no node, whichever pods go", podName(pod))
		return errNotPlaced
	}
	sets, err := s.victims(ctx, pod, true, 1)
	if err != nil {
		return err
	}
	more := "nor if others went"
	if len(sets) > 0 {
		more = "but on " + sets[0].Node.Name() + " if pods of the same or a higher priority went: see --any-priority"
	}
	o.streams.note("%s fits on no node if pods of lower priority than its own (%d) go, %s", podName(pod), priorityOf(pod), more)
	return errNotPlaced
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "not proven"
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// victims asks for the cheapest sets. Pods cost by their rank among the priorities there are.
func (s *simulation) victims(ctx context.Context, pod *corev1.Pod, anyPriority bool, most int) ([]simulate.VictimSet, error) {
	shapes, err := s.state.Shapes([]*corev1.Pod{pod})
	if err != nil {
		return nil, err
	}
	// A node holds fewer pods than that: a rank is dearer than all pods of those below it.
	const perRank = 1000
	cost := make(map[int32]float64)
	for rank, priority := range s.priorities() {
		cost[priority] = math.Pow(perRank, float64(min(rank, maxRank)))
	}
	return s.state.Victims(ctx, shapes[0], simulate.Real(nil), func(victim *corev1.Pod) float64 {
		if stays(victim) || victim.Spec.NodeName == "" || !anyPriority && priorityOf(victim) >= priorityOf(pod) {
			return math.Inf(1)
		}
		return cost[priorityOf(victim)]
	}, most)
}

// maxRank keeps sums of costs exact enough. Priorities beyond it count as one.
const maxRank = 4

// priorities lists the different ones of pods on nodes, ascending.
func (s *simulation) priorities() []int32 {
	found := make(map[int32]bool)
	for _, key := range s.PodKeys() {
		if pod := s.Pod(key); pod.Spec.NodeName != "" {
			found[priorityOf(pod)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func priorityOf(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }

// stays reports whether a pod would be back at once, or cannot be evicted.
func stays(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || ofDaemonSet(pod)
}

func ofDaemonSet(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == "DaemonSet" })
}

// change is what a what-if does to the cluster.
type change struct {
	taint                      string
	driver, pool, device, node string
	remove                     []string
	add                        map[string]int
}

// whatIfAnswer is how many pods of a shape fit before and after.
type whatIfAnswer struct {
	Pod     string `json:"pod"`
	Pending int    `json:"pending"`
	// FitsNow and FitsThen are absent if there is no limit.
	FitsNow  *int `json:"fitsNow,omitempty"`
	FitsThen *int `json:"fitsThen,omitempty"`
	// Undecided is how many nodes may then take more.
	UndecidedNodes int `json:"undecidedNodes"`
}

func newSimulateWhatIf(o *origin) *cobra.Command {
	var change change
	selected := &selection{origin: o}
	command := simulateCommand(&cobra.Command{
		Use:   "what-if [--taint KEY[=VALUE]:EFFECT] [--remove NODE,...] [--add NODE=COUNT,...]",
		Short: "Count how many pods fit before and after a change",
		Long: `Count how many pods like the pending ones fit now, and how many would fit after a
change, each kind by itself. Devices are tainted, nodes are removed with their
pods, and nodes like existing ones are added, in that order. -n, -A, -l and
--field-selector choose pending pods.

Exit status: 0 however many fit, 2 for wrong usage or input.`,
		Example: `  # What if all devices of a driver were tainted, as by a DeviceTaintRule?
  dray simulate what-if --taint example.com/broken:NoSchedule --driver gpu.example.com -f cluster/

  # What if two nodes like gpu-1 took the place of gpu-2?
  dray simulate what-if --remove gpu-2 --add gpu-1=2 -f cluster/`,
		Args: noArguments,
	}, selected, func(ctx context.Context, _ []string, f *output) error {
		s, err := o.simulation(ctx, selected)
		if err != nil {
			return err
		}
		then, on, err := s.after(&change)
		if err != nil {
			return err
		}
		var rows [][]string
		var items []any
		for _, shape := range s.shapes {
			before, err := s.state.FitsMany(ctx, shape, simulate.Real(nil))
			if err != nil {
				return err
			}
			after, err := then.FitsMany(ctx, shape, on)
			if err != nil {
				return err
			}
			answer := whatIfAnswer{
				Pod: podName(shape.Pods[0]), Pending: len(shape.Pods),
				FitsNow: limit(before), FitsThen: limit(after), UndecidedNodes: after.Undecided,
			}
			rows = append(rows, []string{answer.Pod, strconv.Itoa(answer.Pending), count(answer.FitsNow), count(answer.FitsThen), strconv.Itoa(answer.UndecidedNodes)})
			items = append(items, answer)
		}
		return s.show(o, f, "SimulatedWhatIfList", []string{"POD", "PENDING", "FITS NOW", "FITS THEN", "UNDECIDED NODES"}, rows, items)
	})
	flags := command.Flags()
	flags.StringVar(&change.taint, "taint", "", "taint devices, as in example.com/broken:NoSchedule")
	flags.StringVar(&change.driver, "driver", "", "taint devices of this driver only")
	flags.StringVar(&change.pool, "pool", "", "taint devices of this pool only")
	flags.StringVar(&change.device, "device", "", "taint devices of this name only")
	flags.StringVar(&change.node, "node", "", "taint devices of this node only")
	flags.StringSliceVar(&change.remove, "remove", nil, "nodes that go, with their pods")
	flags.StringToIntVar(&change.add, "add", nil, "nodes like these come, as many")
	// They fail only for flags that do not exist.
	_ = command.RegisterFlagCompletionFunc("node", o.completeNode)
	_ = command.RegisterFlagCompletionFunc("remove", o.completeNode)
	_ = command.RegisterFlagCompletionFunc("driver", o.completeDriver)
	return command
}

// limit is nil if there is none.
func limit(fit simulate.Fit) *int {
	if fit.Pods == simulate.Unlimited {
		return nil
	}
	return &fit.Pods
}

func count(n *int) string {
	if n == nil {
		return "unlimited"
	}
	return strconv.Itoa(*n)
}

// after is the cluster once the change is made, and the nodes that there are then.
func (s *simulation) after(c *change) (*simulate.State, simulate.Nodes, error) {
	on := simulate.Real(nil)
	sim := s.state.Sim()
	if err := s.taint(sim, c); err != nil {
		return nil, on, err
	}
	sets := []simulate.Nodes{on}
	for _, like := range slices.Sorted(maps.Keys(c.add)) {
		if c.add[like] < 0 {
			return nil, on, fmt.Errorf("--add: %s=%d is negative", like, c.add[like])
		}
		template, err := s.state.TemplateOf(like, ofDaemonSet)
		if err != nil {
			return nil, on, fmt.Errorf("--add: %w", err)
		}
		if err := sim.Add(template, c.add[like]); err != nil {
			return nil, on, fmt.Errorf("--add: %w", err)
		}
		sets = append(sets, simulate.Added(template))
	}
	if len(c.remove) > 0 {
		if err := sim.Remove(c.remove...); err != nil {
			return nil, on, fmt.Errorf("--remove: %w", err)
		}
	}
	return sim.State(), simulate.Union(sets...), nil
}

func (s *simulation) taint(sim *simulate.Sim, c *change) error {
	chosen := c.driver + c.pool + c.device + c.node
	if c.taint == "" {
		if chosen != "" {
			return errors.New("--driver, --pool, --device and --node choose what to taint: --taint is missing")
		}
		return nil
	}
	taint, err := cluster.ParseTaint(c.taint)
	if err != nil {
		return fmt.Errorf("--taint: %w", err)
	}
	if chosen == "" {
		return errors.New("--taint: say which devices with --driver, --pool, --device or --node")
	}
	devices, err := s.devices(c)
	if err != nil {
		return err
	}
	if len(devices) == 0 {
		return errors.New("--taint: there is no such device")
	}
	return sim.Taint(taint, slices.Values(devices))
}

// devices are those that are to be tainted.
func (s *simulation) devices(c *change) ([]pools.DeviceID, error) {
	var only *corev1.Node
	if c.node != "" {
		if only = s.Node(c.node); only == nil {
			return nil, fmt.Errorf("--node: node %s does not exist", c.node)
		}
	}
	all, err := s.Inventory(only)
	if err != nil {
		return nil, err
	}
	var devices []pools.DeviceID
	for _, pool := range all {
		if c.driver != "" && pool.Driver != c.driver || c.pool != "" && pool.Pool != c.pool {
			continue
		}
		for i := range pool.Devices {
			if device := &pool.Devices[i]; !device.Elsewhere && (c.device == "" || device.Name == c.device) {
				devices = append(devices, pools.DeviceID{Driver: pool.Driver, Pool: pool.Pool, Device: device.Name})
			}
		}
	}
	return devices, nil
}
