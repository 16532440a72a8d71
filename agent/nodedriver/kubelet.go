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
	// kubeletInterval is how often kubelet is asked which devices pods still have:
	// it does not say when a device plugin's device is free again.
	kubeletInterval = 10 * time.Second
	// longestLook is the time between two questions after which nothing is known of the time between.
	longestLook = 3 * kubeletInterval
	// podsInterval is how often the API server is asked for the pods of a node on which nothing changes
	// and plugin devices are in use.
	podsInterval = 5 * time.Minute
	// assumedInterval is how often the API server is asked for claims that may be prepared.
	assumedInterval = time.Minute
)

// kubelet finds out which devices of device plugins are in use, for all drivers.
type kubelet struct {
	options  *Options
	patience time.Duration // for an answer of kubelet, and for one of the API server
	judge    podresources.Judge
	asked    time.Time // when kubelet was asked last
	wake     chan struct{}
	// compared are the holds of device plugins that there were when kubelet and the API server were compared
	// last, at that time; nil if nothing is known since.
	compared   []inventory.Hold
	comparedAt time.Time
}

func newKubelet(options *Options) *kubelet {
	return &kubelet{options: options, patience: kubeletInterval / 2, wake: make(chan struct{}, 1)}
}

func (o *Options) podResources() string {
	return filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock")
}

// view is what kubelet and the API server say at one moment.
type view struct {
	answer      *podresources.Answer // nil if kubelet does not answer
	kubeletErr  error                // why
	noSocket    bool                 // kubelet's socket is not there
	silent      bool                 // kubelet did not answer all the time since it was asked before
	holds       []inventory.Hold     // of device plugins, from after answer
	unasked     bool                 // the API server was not asked: nothing can become free
	pods        []corev1.Pod         // from after holds
	podsErr     error
	unexplained podresources.Unexplained
	report      devicetree.Report
}

// look has kubelet asked soon.
func (k *kubelet) look() {
	select {
	case k.wake <- struct{}{}:
	default: // it will be
	}
}

// follow tells drivers what kubelet says, until ctx is done.
func (k *kubelet) follow(ctx context.Context, drivers func() []*served) {
	if !k.options.NoKubelet {
		defer k.watchPods(ctx)()
	}
	ticker := time.NewTicker(kubeletInterval)
	defer ticker.Stop()
	var asked time.Time // when for claims
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
			d.told(ctx, seen)
			d.tellConflicts(ctx)
			if due && d.dropAssumed(ctx) {
				asked = time.Now()
			}
		}
	}
}

// ask asks kubelet and then the API server: a pod that came in between is among the pods. The API
// server is asked only if drivers can do something with its answer.
func (k *kubelet) ask(ctx context.Context, drivers []*served) *view {
	if k.options.NoKubelet {
		return &view{}
	}
	// One that hangs must not look as if the other one did.
	within := func(ask func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, k.patience)
		defer cancel()
		ask(ctx)
	}
	out := &view{}
	within(func(ctx context.Context) {
		out.answer, out.kubeletErr = podresources.List(ctx, k.options.podResources())
	})
	if out.kubeletErr != nil {
		_, err := os.Stat(k.options.podResources())
		out.noSocket = errors.Is(err, fs.ErrNotExist)
	}
	if k.needsPods(out, drivers) {
		within(func(ctx context.Context) {
			// Not from the API server's memory of an earlier moment: the pods must be newer than kubelet's answer.
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

// needsPods tells whether the pods of the node are needed beside kubelet's answer, to which it adds the
// holds. They are not if no device of a plugin is in use, or if kubelet reports each device that is, to
// the same users as when both were compared last. A pod that comes is given its devices by
// this process or another one with the same ledger, which changes a hold.
func (k *kubelet) needsPods(v *view, drivers []*served) bool {
	known := true
	for _, d := range drivers {
		ledger := d.ledger.Load()
		if ledger == nil {
			continue // its turn is later
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
		v.unasked = true
	case v.answer != nil && !k.judge.Waits() && time.Since(k.comparedAt) < podsInterval:
		v.unasked = slices.Equal(v.holds, k.compared) && !slices.ContainsFunc(v.holds, func(hold inventory.Hold) bool { return !reports(v.answer, hold) })
	}
	return !v.unasked
}

// reports tells whether kubelet says that a container has the device of a hold.
func reports(answer *podresources.Answer, hold inventory.Hold) bool {
	for resource, ids := range answer.InUse {
		driver, _, _ := strings.Cut(resource, "/")
		if id, ours := strings.CutPrefix(hold.User, driver+"/"); ours && slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

// compare makes the report of what both said.
func (k *kubelet) compare(v *view) {
	now := time.Now()
	v.silent = v.answer == nil || now.Sub(k.asked) > longestLook
	k.asked = now
	if v.silent {
		k.judge.Silent()
		k.compared = nil
	}
	if v.answer == nil {
		for i := range v.pods { // one of them may be deleted before kubelet answers
			k.judge.Observe(&v.pods[i])
		}
		return
	}
	v.report = devicetree.Report{Asked: v.answer.Asked, InUse: v.answer.InUse}
	if v.podsErr == nil && !v.unasked {
		v.unexplained = k.judge.Unexplained(v.answer, v.pods)
		v.report.Free = v.unexplained.Free
		k.compared, k.comparedAt = v.holds, now
	}
}

func (k *kubelet) ofNode() fields.Selector {
	return fields.OneTermEqualSelector("spec.nodeName", k.options.NodeName)
}

// whyNothingIsFree says why no device of a plugin becomes free, if so.
func (v *view) whyNothingIsFree() string {
	switch {
	case v.podsErr != nil:
		return fmt.Sprintf("No device of a plugin becomes free: %v", v.podsErr)
	case v.unexplained[podresources.AnyResource] != "":
		return fmt.Sprintf("No device of a plugin becomes free: %s", v.unexplained[podresources.AnyResource])
	}
	return ""
}

// watchPods has the judge see pods between two answers of the API server, and the last state of those
// that are deleted. It is only a help, so that nothing is waited for that is over.
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

// tellConflicts tells of devices with two users: in the log, and as Events of the node.
func (d *served) tellConflicts(ctx context.Context) {
	ledger := d.ledger.Load()
	if ledger == nil {
		return
	}
	var subjects []string
	for _, conflict := range ledger.Conflicts() {
		text := conflict.String()
		subject := "conflict " + text
		subjects = append(subjects, subject)
		if d.others.tell(ctx, subject, text) {
			d.events.warn("DeviceHasTwoUsers", text)
		}
	}
	d.others.forget(ctx, "conflict ", subjects)
}

// dropAssumed gives up what is assumed for claims that are not allocated any more, and tells
// whether it had to ask for that.
func (d *served) dropAssumed(ctx context.Context) bool {
	ledger := d.ledger.Load()
	if ledger == nil || !slices.ContainsFunc(ledger.Holds(), func(hold inventory.Hold) bool { return hold.Assumed && hold.Front == inventory.FrontDRA }) {
		return false
	}
	claims, err := d.claims(ctx)
	if err == nil {
		err = draplugin.DropUnallocated(d.in.Load(), d.name, ledger, claims)
	}
	if err != nil {
		d.others.tell(ctx, "assumed", fmt.Sprintf("Devices of claims that may be prepared do not become free: %v", err))
	} else {
		d.others.tell(ctx, "assumed", "")
	}
	return true
}
