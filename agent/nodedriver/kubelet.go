// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

const (
	// kubeletInterval is how often kubelet is asked which devices are in use by pods. Kubelet does
	// not notify a device plugin when a device becomes free.
	kubeletInterval = 10 * time.Second
	// longestGap is the longest time between two answers of kubelet. After a longer gap, pods may
	// have come and gone unseen.
	longestGap = 3 * kubeletInterval
	// podsInterval is how often the pods of the node are listed from the API server if nothing
	// changes and plugin devices are in use.
	podsInterval = 5 * time.Minute
	// assumedInterval is how often claims are listed from the API server while some are assumed to
	// be prepared.
	assumedInterval = time.Minute
)

// kubelet finds out which devices of the device plugins are in use, for all drivers.
type kubelet struct {
	options *Options
	timeout time.Duration // timeout of one request to kubelet, or to the API server
	judge   podresources.Judge
	asked   time.Time // when kubelet was last asked
	wake    chan struct{}
	// compared are the plugins' holds at the last comparison of kubelet's answer with the API
	// server's pods, and comparedAt is its time. It is nil if kubelet did not answer since.
	compared   []inventory.Hold
	comparedAt time.Time
}

func newKubelet(options *Options) *kubelet {
	return &kubelet{options: options, timeout: kubeletInterval / 2, wake: make(chan struct{}, 1)}
}

func (o *Options) podResources() string {
	return filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock")
}

// observation is what kubelet and the API server answered in one round of questions.
type observation struct {
	answer        *podresources.Answer // nil if kubelet did not answer
	kubeletErr    error                // why kubelet did not answer
	noSocket      bool                 // kubelet's socket does not exist
	hadGap        bool                 // kubelet did not answer now, or the last question was too long ago
	holds         []inventory.Hold     // holds of device plugins, read after kubelet's answer
	podsNotListed bool                 // the pods were not listed, since no device can become free
	pods          []corev1.Pod         // listed after the holds were read
	podsErr       error
	unexplained   podresources.Unexplained
	report        devicetree.Report
}

// wakeUp has kubelet asked soon, without waiting for the interval.
func (k *kubelet) wakeUp() {
	select {
	case k.wake <- struct{}{}:
	default: // it was woken already
	}
}

// follow asks kubelet at an interval, and passes the answers to the drivers until ctx is done.
func (k *kubelet) follow(ctx context.Context, drivers func() []*driverServer) {
	if !k.options.NoKubelet {
		defer k.watchPods(ctx)()
	}
	ticker := time.NewTicker(kubeletInterval)
	defer ticker.Stop()
	var asked time.Time // when claims were last listed
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-ticker.C:
		}
		all := drivers()
		seen := k.ask(ctx, all)
		if ctx.Err() != nil {
			return
		}
		due := time.Since(asked) >= assumedInterval
		for _, d := range all {
			d.handleObservation(ctx, seen)
			d.reportConflicts(ctx)
			if due && d.dropAssumed(ctx) {
				asked = time.Now()
			}
		}
	}
}

// ask asks kubelet first and then the API server, so that the pods include those that started in
// between. It lists pods only if needsPods says so.
func (k *kubelet) ask(ctx context.Context, drivers []*driverServer) *observation {
	if k.options.NoKubelet {
		return &observation{}
	}
	// Each request has its own timeout, so that it is clear which one hung.
	within := func(ask func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, k.timeout)
		defer cancel()
		ask(ctx)
	}
	out := &observation{}
	within(func(ctx context.Context) {
		out.answer, out.kubeletErr = podresources.List(ctx, k.options.podResources())
	})
	if out.kubeletErr != nil {
		_, err := os.Stat(k.options.podResources())
		out.noSocket = errors.Is(err, fs.ErrNotExist)
	}
	if k.needsPods(out, drivers) {
		within(func(ctx context.Context) {
			// No resource version, so that the list is not served from a cache: the pods must be
			// newer than kubelet's answer.
			pods, err := k.options.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: k.ofNode().String()})
			if err != nil {
				out.podsErr = fmt.Errorf("pods of the node: %w", err)
				return
			}
			out.pods = pods.Items
		})
	}
	k.compare(out)
	return out
}

// needsPods adds the plugins' holds to the observation, and tells whether the pods must be listed.
// That is not necessary if no plugin device is in use. It is not necessary either if kubelet
// reports the same users of the same devices as at the last comparison. A new pod changes a hold,
// because this process or another one with the same ledger allocates its devices.
func (k *kubelet) needsPods(v *observation, drivers []*driverServer) bool {
	known := true
	for _, d := range drivers {
		ledger := d.ledger.Load()
		if ledger == nil {
			continue // no ledger yet; a later round handles this driver
		}
		known = known && len(ledger.Unknown()) == 0
		for _, hold := range ledger.Holds() {
			if hold.Front == inventory.FrontDevicePlugin {
				v.holds = append(v.holds, hold)
			}
		}
	}
	switch {
	case !known:
		return true
	case len(v.holds) == 0:
		v.podsNotListed = true
	case v.answer != nil && !k.judge.Waits() && time.Since(k.comparedAt) < podsInterval:
		v.podsNotListed = slices.Equal(v.holds, k.compared) && !slices.ContainsFunc(v.holds, func(hold inventory.Hold) bool { return !reports(v.answer, hold) })
	}
	return !v.podsNotListed
}

// reports tells whether kubelet's answer contains the device of a hold.
func reports(answer *podresources.Answer, hold inventory.Hold) bool {
	for resource, ids := range answer.InUse {
		driver, _, _ := strings.Cut(resource, "/")
		if id, ours := strings.CutPrefix(hold.User, driver+"/"); ours && slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

// compare fills in the report from the answers of kubelet and the API server.
func (k *kubelet) compare(v *observation) {
	now := time.Now()
	v.hadGap = v.answer == nil || now.Sub(k.asked) > longestGap
	k.asked = now
	if v.hadGap {
		k.judge.Silent()
		k.compared = nil
	}
	if v.answer == nil {
		for i := range v.pods { // the pod may be deleted before kubelet answers again
			k.judge.Observe(&v.pods[i])
		}
		return
	}
	v.report = devicetree.Report{Asked: v.answer.Asked, InUse: v.answer.InUse}
	if v.podsErr == nil && !v.podsNotListed {
		v.unexplained = k.judge.Unexplained(v.answer, v.pods)
		v.report.Free = v.unexplained.Free
		k.compared, k.comparedAt = v.holds, now
	}
}

func (k *kubelet) ofNode() fields.Selector {
	return fields.OneTermEqualSelector("spec.nodeName", k.options.NodeName)
}

// whyNothingIsFree returns why no plugin device becomes free, or "" if some can.
func (v *observation) whyNothingIsFree() string {
	switch {
	case v.podsErr != nil:
		return fmt.Sprintf("No device of a plugin becomes free: %v", v.podsErr)
	case v.unexplained[podresources.AnyResource] != "":
		return fmt.Sprintf("No device of a plugin becomes free: %s", v.unexplained[podresources.AnyResource])
	}
	return ""
}

// watchPods shows pods to the judge as they change, including their last state before deletion.
// Correctness does not depend on it. It only spares the judge waiting for pods that have ended.
func (k *kubelet) watchPods(ctx context.Context) (stop func()) {
	observe := func(object any) {
		if pod, known := object.(*corev1.Pod); known {
			k.judge.Observe(pod)
		}
	}
	pods := k.options.Client.CoreV1().Pods(metav1.NamespaceAll)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = k.ofNode().String()
				return pods.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = k.ofNode().String()
				return pods.Watch(ctx, options)
			},
		},
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    observe,
			UpdateFunc: func(_, now any) { observe(now) },
			DeleteFunc: observe,
		},
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// reportConflicts reports devices with two users, in the log and as Events of the node.
func (d *driverServer) reportConflicts(ctx context.Context) {
	ledger := d.ledger.Load()
	if ledger == nil {
		return
	}
	var subjects []string
	for _, conflict := range ledger.Conflicts() {
		text := conflict.String()
		subject := "conflict " + text
		subjects = append(subjects, subject)
		if d.problems.set(ctx, subject, text) {
			d.events.warn("DeviceHasTwoUsers", text)
		}
	}
	d.problems.clearExcept(ctx, "conflict ", subjects)
}

// dropAssumed drops holds that are assumed to be prepared, and whose claims are no longer
// allocated. It returns whether it had to list claims.
func (d *driverServer) dropAssumed(ctx context.Context) bool {
	ledger := d.ledger.Load()
	if ledger == nil || !slices.ContainsFunc(ledger.Holds(), func(hold inventory.Hold) bool { return hold.Assumed && hold.Front == inventory.FrontDRA }) {
		return false
	}
	claims, err := d.claims(ctx)
	if err == nil {
		err = draplugin.DropUnallocated(d.in.Load(), d.name, ledger, claims)
	}
	if err != nil {
		d.problems.set(ctx, "assumed", fmt.Sprintf("Devices of claims that may be prepared do not become free: %v", err))
	} else {
		d.problems.set(ctx, "assumed", "")
	}
	return true
}
