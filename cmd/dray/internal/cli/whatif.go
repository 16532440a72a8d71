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
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// victimsAnswer has the pods of one node that must be evicted for another pod.
type victimsAnswer struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
	// Least says that no other set of pods on the node is smaller, or has a lower priority.
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

Exit status: 0 if there is a node, 1 if there is none, 2 for wrong usage or input. 3 if
it is not known whether there is one.`,
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
		s.notLookedAtAlone(pod)
		before, err := s.placeBefore(ctx, o, pod, alone)
		if err != nil {
			return err
		}
		sets, undecided, err := s.victims(ctx, pod, all, most)
		if err != nil {
			return err
		}
		if err := s.showVictims(o, f, sets, undecided, before); err != nil || len(sets) > 0 {
			return err
		}
		if undecided > 0 {
			o.streams.note("it is not known whether %s fits if others go: %s undecided", podName(pod), render.Count(undecided, "node"))
			return errUndecided
		}
		return s.noVictims(ctx, o, pod, all)
	})
	command.Flags().IntVar(&most, "nodes", 3, "tell of at most so many nodes, those with the cheapest victims first")
	command.Flags().BoolVar(&all, "any-priority", false, "let pods of the same and of higher priority go, too")
	command.Flags().BoolVar(&alone, "alone", false, "do not place what comes before it first")
	return command
}

// showVictims prints sets of victims. undecided is the number of nodes that may have others, and
// before the number of pods that were placed first.
func (s *simulation) showVictims(o *origin, f *output, sets []simulate.VictimSet, undecided, before int) error {
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
	more := map[string]any{"placedBefore": before, "undecidedNodes": undecided}
	return s.showWith(o, f, "SimulatedVictimsList", []string{"NODE", "PODS", "LEAST", "VICTIMS"}, rows, items, more)
}

// placeBefore places the pods that come before a pod in the queue, as dray explain does, unless
// alone is set. It returns how many have a place.
func (s *simulation) placeBefore(ctx context.Context, o *origin, pod *corev1.Pod, alone bool) (placed int, err error) {
	if alone {
		return 0, nil
	}
	queue, err := s.queue(nil, o)
	if err != nil {
		return 0, err
	}
	groups := make(map[*corev1.Pod]*waiting)
	for i := range queue {
		if w := &queue[i]; w.kind == "PodGroup" && !slices.Contains(w.pods, pod) {
			for _, member := range w.pods {
				groups[member] = w
			}
		}
	}
	sim := s.state.Sim()
	for _, earlier := range s.PendingPods() {
		if earlier == pod {
			break
		}
		group := groups[earlier]
		if group == nil {
			group = &waiting{pods: []*corev1.Pod{earlier}}
		}
		if group.pods[0] != earlier {
			continue // it was placed with its group
		}
		p, err := s.groupParty(group)
		if err != nil {
			continue // the pod was left out of the state
		}
		result, err := p.place(ctx, sim, simulate.Real(nil))
		if err != nil {
			return 0, err
		}
		placed += result.Placed
	}
	s.state = sim.State()
	return placed, nil
}

// noVictims prints that evictions help on no node, and whether priorities are the reason.
func (s *simulation) noVictims(ctx context.Context, o *origin, pod *corev1.Pod, anyPriority bool) error {
	if anyPriority {
		o.streams.note("%s fits on no node, whichever pods go", podName(pod))
		return errNotPlaced
	}
	sets, undecided, err := s.victims(ctx, pod, true, 1)
	if err != nil {
		return err
	}
	more := "nor if others went"
	switch {
	case len(sets) > 0:
		more = "but on " + sets[0].Node.Name() + " if pods of the same or a higher priority went: see --any-priority"
	case undecided > 0:
		more = "and it is not known whether it would if others went"
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

// victims returns the cheapest sets of victims. The cost of a pod is the rank of its priority.
func (s *simulation) victims(ctx context.Context, pod *corev1.Pod, anyPriority bool, most int) (sets []simulate.VictimSet, undecided int, err error) {
	shapes, err := s.state.Shapes([]*corev1.Pod{pod})
	if err != nil {
		return nil, 0, err
	}
	// A node has fewer pods than that. So a pod of a higher rank costs more than all pods of lower
	// ranks together.
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

// maxRank bounds the ranks, so that sums of costs remain exact. Higher priorities have the same
// rank.
const maxRank = 4

// priorities returns the distinct priorities of pods on nodes, ascending.
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

// stays reports whether a pod cannot be evicted, or would be created again on its node.
func stays(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || ofDaemonSet(pod)
}

func ofDaemonSet(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.Kind == "DaemonSet" })
}

// change has the flags of a what-if.
type change struct {
	taint                      string
	driver, pool, device, node string
	remove                     []string
	add                        map[string]int
}

// whatIfAnswer says how many pods of a shape fit before and after the change.
type whatIfAnswer struct {
	Pod     string `json:"pod"`
	Pending int    `json:"pending"`
	// FitsNow and FitsThen are absent if there is no limit.
	FitsNow  *int `json:"fitsNow,omitempty"`
	FitsThen *int `json:"fitsThen,omitempty"`
	// UndecidedNodes is the number of nodes that may take more pods after the change.
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
		s.notLookedAtOfGroups()
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
	// an error means that the flag does not exist
	_ = command.RegisterFlagCompletionFunc("node", o.completeNode)
	_ = command.RegisterFlagCompletionFunc("remove", o.completeNode)
	_ = command.RegisterFlagCompletionFunc("driver", o.completeDriver)
	return command
}

// limit returns the number of pods that fit, or nil if there is no limit.
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

// after returns the state after the change, and the nodes of that state.
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
		template, err := s.state.TemplateOf(like, stays)
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

// devices returns the devices to taint.
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
