// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/when"
)

// whenAnswer says when a pod or a group starts.
type whenAnswer struct {
	// Kind is Pod or PodGroup.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Pods is the number of pods that start together.
	Pods int `json:"pods"`
	// Starts is absent if they never start.
	Starts *time.Time `json:"starts,omitempty"`
	// Undecided says that they may start earlier, or may start although Starts is absent.
	Undecided bool       `json:"undecided,omitempty"`
	Nodes     []string   `json:"nodes,omitempty"`
	After     []endOfPod `json:"after,omitempty"`
}

// endOfPod is the expected end of a pod.
type endOfPod struct {
	Pod string    `json:"pod"`
	At  time.Time `json:"at"`
}

func newSimulateWhen(o *origin) *cobra.Command {
	var ends, now string
	var backfill bool
	selected := &selection{origin: o}
	command := simulateCommand(&cobra.Command{
		Use:   "when [POD|podgroup/NAME]...",
		Short: "Tell at what time the pending pods start, given when others end",
		Long: `Tell at what time the pending pods start, given when pods that run are expected to
end. Pods wait in the order of the scheduling queue. As many pods of a PodGroup as it
needs start together (minCount). They get what they must have in common: a label of
their nodes (schedulingConstraints) and attributes of their devices (the annotation
dray-project.github.io/extension). The other pods of a group are left aside. Those that
are named wait alone, as if no others did.

The file of --ends has a pod and a time on each line, as in
"ml/train-0 2026-11-25T15:00:00Z" or "train-1 1h30m". For other pods the annotation
` + when.EndAnnotation + ` of the pod or its Job says when it
ends. Without it, the earlier deadline of both counts (activeDeadlineSeconds). Pods that
are being deleted end with their grace period at the latest. Pods of which nobody says
it stay. A pod that starts ends after its own deadline.

Exit status: 0 if all start at some time, 1 if not, 2 for wrong usage or input, 3 if
that is not known.`,
		Example: `  # When does each of the pods of the queue start?
  dray simulate when --ends ends.txt -f cluster/

  # If later ones may start before earlier ones that have to wait
  dray simulate when --backfill -f cluster/

  # After which ends does this group fit, if nothing else waits?
  dray simulate when podgroup/trainers -o yaml`,
		Args: cobra.ArbitraryArgs,
	}, selected, func(ctx context.Context, names []string, f *output) error {
		at := time.Now().Truncate(time.Second)
		if now != "" {
			var err error
			if at, err = readTime(now, at); err != nil {
				return fmt.Errorf("--now: %w", err)
			}
		}
		s, err := o.simulation(ctx, selected)
		if err != nil {
			return err
		}
		queue, err := s.queue(names, o)
		if err != nil {
			return err
		}
		q := when.Queue{Now: at, Backfill: backfill, On: simulate.Real(nil)}
		if q.Ends, err = o.ends(ctx, s.Cluster, ends, at); err != nil {
			return err
		}
		if len(q.Ends) == 0 {
			o.streams.note("of no pod that runs is it known when it ends: see --ends")
		}
		for _, w := range queue {
			s.addNotLookedAt(w.pods[0], w.unseen(q.Ends))
			q.Waits = append(q.Waits, when.Wait{Pods: w.pods, Topologies: w.topologies, Lasts: when.Lasting(w.pods)})
		}
		starts, err := when.Starts(ctx, s.state, q)
		if err != nil {
			return err
		}
		return s.showStarts(ctx, o, f, queue, starts)
	})
	command.ValidArgsFunction = o.completeSubject
	flags := command.Flags()
	flags.StringVar(&ends, "ends", "", "file with a pod and the time of its end on each line")
	flags.BoolVar(&backfill, "backfill", false, "let later ones start while earlier ones wait, which may make these wait longer")
	flags.StringVar(&now, "now", "", "the time at which pods may start first, as in a file of --ends (default now)")
	return command
}

// unseen is what a queue does not look at of the pods, given which pods end.
func (w *waiting) unseen(ends []when.End) []string {
	if w.kind != "PodGroup" || !slices.ContainsFunc(ends, func(end when.End) bool { return isOfGroup(end.Pod, w.key) }) {
		return w.notLookedAt
	}
	return append(slices.Clip(w.notLookedAt), "that pods of its PodGroup end, which run now")
}

func isOfGroup(pod *corev1.Pod, group types.NamespacedName) bool {
	of := pod.Spec.SchedulingGroup
	return pod.Namespace == group.Namespace && of != nil && ptr.Deref(of.PodGroupName, "") == group.Name
}

// showStarts prints the start of each entry of the queue. It explains why the first that does not
// start has no place, or that this is not known.
func (s *simulation) showStarts(ctx context.Context, o *origin, f *output, queue []waiting, starts []when.Start) error {
	var rows [][]string
	var items []any
	never := -1
	for i := range starts {
		w, start := queue[i], &starts[i]
		answer := whenAnswer{Kind: w.kind, Name: w.key.String(), Pods: len(w.pods), Undecided: start.Undecided}
		at := "never"
		switch {
		case start.Possible:
			starts := start.At.UTC()
			answer.Starts, at = &starts, starts.Format(time.RFC3339)
			if start.Undecided {
				at += " or earlier"
			}
		case start.Undecided:
			at = "undecided"
		}
		if !start.Possible && never < 0 {
			never = i
		}
		for placement := range start.Result.Placements() {
			answer.Nodes = append(answer.Nodes, placement.Node.Name())
		}
		for _, end := range start.After {
			answer.After = append(answer.After, endOfPod{podName(end.Pod), end.At.UTC()})
		}
		name := answer.Name
		if w.kind == "PodGroup" {
			name = "podgroup/" + name
		}
		rows = append(rows, []string{name, strconv.Itoa(answer.Pods), at, afterWhich(answer.After)})
		items = append(items, answer)
	}
	if err := s.show(o, f, "SimulatedStartList", []string{"NAME", "PODS", "STARTS", "AFTER THE ENDS OF"}, rows, items); err != nil || never < 0 {
		return err
	}
	if starts[never].Undecided {
		o.streams.note("it is not known whether %s has a place after the last of the ends", rows[never][0])
	} else {
		o.streams.note("%s has no place even after the last of the ends", rows[never][0])
	}
	refusals, err := starts[never].Result.Why(ctx)
	if err != nil {
		return err
	}
	for i := range refusals {
		o.streams.note("%s", refusals[i].String())
	}
	return notPlaced(!slices.ContainsFunc(starts, func(s when.Start) bool { return !s.Possible && !s.Undecided }))
}

// afterWhich names the last of the pods whose end is awaited.
func afterWhich(ends []endOfPod) string {
	const few = 3
	var names []string
	for _, end := range slices.Backward(ends) {
		if len(names) == few {
			names = append(names, fmt.Sprintf("%d more", len(ends)-few))
			break
		}
		names = append(names, end.Pod)
	}
	return orNone(strings.Join(names, ","))
}

// ends returns the expected ends of running pods. Times in a file override those from pods and
// their Jobs.
func (o *origin) ends(ctx context.Context, c *cluster.Cluster, file string, now time.Time) ([]when.End, error) {
	jobs, err := o.jobs(ctx, c)
	if err != nil {
		return nil, err
	}
	ends, err := c.Ends(jobs)
	if err != nil {
		o.streams.note("warning: left out: %s", strings.ReplaceAll(err.Error(), "\n", "\nwarning: left out: "))
	}
	if file == "" {
		return ends, nil
	}
	given, err := o.readEnds(c, file, now)
	if err != nil {
		return nil, fmt.Errorf("--ends: %w", err)
	}
	ends = slices.DeleteFunc(ends, func(end when.End) bool { _, found := given[end.Pod]; return found })
	for _, pod := range c.Running() {
		if at, found := given[pod]; found {
			ends = append(ends, when.End{Pod: pod, At: at})
		}
	}
	return ends, nil
}

// jobs returns the Jobs of the files, or of the cluster as far as the user may list them.
func (o *origin) jobs(ctx context.Context, c *cluster.Cluster) ([]*batchv1.Job, error) {
	if !o.live() {
		return c.Jobs()
	}
	client, _, err := o.client()
	if err != nil {
		return nil, err
	}
	list := func(namespace string) (runtime.Object, error) {
		all, _, err := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.BatchV1().Jobs(namespace).List(ctx, options)
		}).List(ctx, metav1.ListOptions{})
		return all, err
	}
	all, err := list(corev1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		o.streams.note("warning: list jobs: not permitted in all namespaces: what Jobs of others than %s say of when their pods end is not known", o.namespace())
		all, err = list(o.namespace())
	}
	if apierrors.IsForbidden(err) {
		o.streams.note("warning: list jobs: not permitted in namespace %s either", o.namespace())
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var jobs []*batchv1.Job
	err = meta.EachListItem(all, func(object runtime.Object) error {
		job, ok := object.(*batchv1.Job)
		if !ok {
			return fmt.Errorf("list jobs: got a %T", object)
		}
		jobs = append(jobs, job)
		return nil
	})
	return jobs, err
}

// readEnds reads a file with a pod and a time on each line.
func (o *origin) readEnds(c *cluster.Cluster, path string, now time.Time) (map[*corev1.Pod]time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read-only
	var keys []types.NamespacedName
	running := make(map[types.NamespacedName]*corev1.Pod)
	for _, pod := range c.Running() {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		keys, running[key] = append(keys, key), pod
	}
	given := make(map[*corev1.Pod]time.Time)
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		pod, at, err := o.readEnd(words, keys, running, now)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number, err)
		}
		if _, twice := given[pod]; twice {
			return nil, fmt.Errorf("%s, line %d: pod %s is named twice", path, number, podName(pod))
		}
		given[pod] = at
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return given, nil
}

// readEnd parses the words of a line.
func (o *origin) readEnd(words []string, keys []types.NamespacedName, running map[types.NamespacedName]*corev1.Pod, now time.Time) (*corev1.Pod, time.Time, error) {
	if len(words) != 2 {
		return nil, time.Time{}, errors.New("want a pod and a time")
	}
	at, err := readTime(words[1], now)
	if err != nil {
		return nil, time.Time{}, err
	}
	namespace, name, qualified := strings.Cut(words[0], "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if !qualified {
		if key, err = resolve("Pod", "is on no node", words[0], keys, o); err != nil {
			return nil, time.Time{}, err
		}
	}
	if running[key] == nil {
		return nil, time.Time{}, fmt.Errorf("pod %s is on no node", key)
	}
	return running[key], at, nil
}

// readTime parses a time in RFC 3339 format, or a duration from now, such as 1h30m.
func readTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q: want a time such as 2026-11-25T15:00:00Z, or a duration such as 1h30m", text)
	}
	return at, nil
}
