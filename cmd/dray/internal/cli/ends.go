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
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/simulate/when"
)

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
