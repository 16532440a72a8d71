// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// Main does not return if this process is the supervisor of a pod. Programs that use a Provider
// must call it first in main.
func Main() { supervisor.Main() }

// Options configure a Provider.
type Options struct {
	// Folder stores which pods run, across restarts of the provider. It is required, and made if it
	// does not exist.
	Folder string
	// LogFolder has the logs of containers. It is required.
	LogFolder string
	// Devices returns the names of the CDI devices of a container. nil stands for no devices.
	Devices func(ctx context.Context, pod *corev1.Pod, container string) ([]string, error)
	// CDIFolders are the folders with CDI specs. If it is empty, the default folders are used.
	CDIFolders []string
	// Recorder records Events of pods, such as failed probes. nil records none.
	Recorder record.EventRecorder
	// AllowRoot permits pods to run as user 0 or group 0. They are root on the machine, without
	// capabilities, and have root's file permissions.
	AllowRoot bool
}

// Provider runs the pods of one node. It implements node.PodLifecycleHandler and
// node.PodNotifier. Methods may be called concurrently.
type Provider struct {
	options  Options
	registry *cdi.Cache
	watcher  *fsnotify.Watcher

	mu     sync.Mutex
	pods   map[types.NamespacedName]*runningPod
	notify func(*corev1.Pod)
	closed bool
	group  sync.WaitGroup // of followers of pods, and of the watcher
}

// New returns a provider with the pods found in Options.Folder: those that still run, and those
// that have ended by themselves.
func New(options Options) (*Provider, error) {
	if options.Folder == "" || options.LogFolder == "" {
		return nil, errdefs.InvalidInput("process provider: Folder and LogFolder are required")
	}
	if err := checkOwnGroups(); err != nil {
		return nil, err
	}
	p, err := newProvider(options)
	if err != nil {
		return nil, fmt.Errorf("process provider: %w", err)
	}
	return p, nil
}

func newProvider(options Options) (*Provider, error) {
	for _, folder := range []*string{&options.Folder, &options.LogFolder} {
		// supervisors have another working directory
		absolute, err := filepath.Abs(*folder)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(absolute, 0o750); err != nil {
			return nil, err
		}
		*folder = absolute
	}
	settings := []cdi.Option{cdi.WithAutoRefresh(false)}
	if len(options.CDIFolders) > 0 {
		settings = append(settings, cdi.WithSpecDirs(options.CDIFolders...))
	}
	registry, err := cdi.NewCache(settings...)
	if err != nil {
		return nil, err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	p := &Provider{options: options, registry: registry, watcher: watcher, pods: make(map[types.NamespacedName]*runningPod), notify: func(*corev1.Pod) {}}
	p.group.Go(p.watch)
	if err := p.adopt(); err != nil {
		p.leave()
		return nil, err
	}
	return p, nil
}

// NotifyPods implements node.PodNotifier. It reports pods that New found at once.
func (p *Provider) NotifyPods(_ context.Context, cb func(*corev1.Pod)) {
	p.mu.Lock()
	p.notify = cb
	var found []*runningPod
	for _, r := range p.pods {
		found = append(found, r)
	}
	p.mu.Unlock()
	for _, r := range found {
		r.triggerRead()
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// CreatePod starts the supervisor of a pod.
func (p *Provider) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	plan, err := p.plan(ctx, pod)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch _, exists := p.pods[nameOf(pod)]; {
	case p.closed:
		return fmt.Errorf("pod %s: the provider is closed", klog.KObj(pod))
	case exists:
		return fmt.Errorf("pod %s: exists already", klog.KObj(pod))
	}
	started, err := supervisor.Create(p.folderOf(pod), plan)
	if namespaces := new(supervisor.NamespacesError); errors.As(err, &namespaces) {
		return errdefs.AsInvalidInput(err)
	}
	if err != nil {
		return fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
	}
	if err := p.add(pod, started, false); err != nil {
		started.Kill()
		<-started.Done()
		return errors.Join(err, started.Remove())
	}
	return nil
}

func (p *Provider) folderOf(pod *corev1.Pod) string {
	return filepath.Join(p.options.Folder, string(pod.UID))
}

// add starts to follow a pod. found says that an earlier provider started it. The caller holds the
// lock.
func (p *Provider) add(pod *corev1.Pod, started *supervisor.Pod, found bool) error {
	if err := p.watcher.Add(filepath.Dir(started.StateFile())); err != nil {
		return fmt.Errorf("pod %s: watch its state: %w", klog.KObj(pod), err)
	}
	r := newRunningPod(p, pod, started)
	if found {
		r.skipEvents()
	}
	p.pods[nameOf(pod)] = r
	r.triggerRead() // its state may have changed before the watch began
	p.group.Go(r.follow)
	return nil
}

// adopt takes over the pods in the folder. If the supervisor of a pod was killed, adopt removes
// what remains of the pod. The pod is then lost, and may be created again.
func (p *Provider) adopt() error {
	entries, err := os.ReadDir(p.options.Folder)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, entry := range entries {
		folder := filepath.Join(p.options.Folder, entry.Name())
		found, err := supervisor.Open(folder)
		if errors.Is(err, os.ErrNotExist) { // no supervisor was started
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("pod of an earlier provider: %w", err)
		}
		if lost, err := isLost(found); err != nil || lost {
			if err := errors.Join(err, found.Remove()); err != nil {
				return err
			}
			continue
		}
		if err := p.add(found.Plan().Pod, found, true); err != nil {
			return err
		}
	}
	return nil
}

func isLost(found *supervisor.Pod) (bool, error) {
	select {
	case <-found.Done():
		state, err := found.State()
		if damaged := new(checkpoint.DamagedError); errors.As(err, &damaged) {
			return true, nil
		}
		return !state.Over, err
	default:
		return false, nil
	}
}

// watch makes pods read their state when its file changes, until the watcher is closed.
func (p *Provider) watch() {
	for {
		select {
		case event, open := <-p.watcher.Events:
			if !open {
				return
			}
			p.triggerReads(func(r *runningPod) bool { return r.supervisor().StateFile() == event.Name })
		case _, open := <-p.watcher.Errors:
			if !open {
				return
			}
			p.triggerReads(func(*runningPod) bool { return true }) // events were lost
		}
	}
}

func (p *Provider) triggerReads(which func(*runningPod) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.pods {
		if which(r) {
			r.triggerRead()
		}
	}
}

// UpdatePod updates a pod's metadata and activeDeadlineSeconds. Its processes do not change.
func (p *Provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	r, err := p.find(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	r.update(pod)
	return nil
}

// DeletePod sends SIGTERM to the containers of a pod, and SIGKILL when the grace period is over. A
// second call may shorten the grace period, but not prolong it. After all processes have ended,
// another call forgets the pod and removes its logs. A pod with a grace period of 0 is forgotten as
// soon as its processes have ended, since there may be no other call.
func (p *Provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	r, err := p.find(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	grace := ptr.To[int64](corev1.DefaultTerminationGracePeriodSeconds)
	grace = firstOf(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, grace)
	if *grace == 0 {
		r.forgetAtEnd.Store(true) // set before over is read; follow reads them in the opposite order
	}
	if r.over() {
		return p.forget(r)
	}
	return r.end(time.Duration(*grace) * time.Second)
}

// forget removes a pod that has ended, and its folder.
func (p *Provider) forget(r *runningPod) error {
	p.mu.Lock()
	known := p.pods[nameOf(r.pod)] == r
	if known {
		delete(p.pods, nameOf(r.pod))
	}
	p.mu.Unlock()
	if !known {
		return nil
	}
	r.leave()
	_ = p.watcher.Remove(filepath.Dir(r.supervisor().StateFile())) // the watch ends with the folder anyway
	return r.supervisor().Remove()
}

func (p *Provider) find(namespace, name string) (*runningPod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.pods[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return nil, errdefs.NotFoundf("pod %s/%s: not on this node", namespace, name)
	}
	return r, nil
}

// GetPod implements node.PodLifecycleHandler.
func (p *Provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	r, err := p.find(namespace, name)
	if err != nil {
		return nil, err
	}
	return r.latest(), nil
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p *Provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (p *Provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pods []*corev1.Pod
	for _, r := range p.pods {
		pods = append(pods, r.latest())
	}
	return pods, nil
}

// Close ends all pods within the grace period, and returns when all processes have ended.
func (p *Provider) Close(grace time.Duration) {
	p.mu.Lock()
	p.closed = true
	var all []*runningPod
	for _, r := range p.pods {
		all = append(all, r)
	}
	p.mu.Unlock()
	for _, r := range all {
		if err := r.end(grace); err != nil {
			klog.Background().Error(err, "Pod is killed", "pod", klog.KObj(r.pod))
			r.supervisor().Kill()
		}
	}
	for _, r := range all {
		<-r.supervisor().Done()
	}
	p.leave()
}

func (p *Provider) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// leave stops following the pods. Their processes go on.
func (p *Provider) leave() {
	p.mu.Lock()
	p.closed = true
	for _, r := range p.pods {
		r.leave()
	}
	p.mu.Unlock()
	_ = p.watcher.Close()
	p.group.Wait()
}
