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

// Main does not return if this process is the supervisor of a pod. It is to be called first
// thing in the main function of programs that use a Provider.
func Main() { supervisor.Main() }

// Options configure a Provider.
type Options struct {
	// Folder is where it is kept which pods run, for this provider and the next one. It is
	// required, and made if it does not exist.
	Folder string
	// LogFolder is where the output of containers goes. It is required.
	LogFolder string
	// Devices returns the names of the CDI devices that a container of a pod has. nil
	// stands for none.
	Devices func(ctx context.Context, pod *corev1.Pod, container string) ([]string, error)
	// CDIFolders are where CDI specs are. Empty stands for the usual folders.
	CDIFolders []string
	// Recorder is told the events of pods, such as probes that fail. nil stands for nobody.
	Recorder record.EventRecorder
	// AllowRoot lets pods have the user 0 and the group 0: the machine's root, without
	// capabilities. Whatever root's files allow, these pods may do.
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
	group  sync.WaitGroup // of pods and of the watcher
}

// New returns a provider with the pods that are found in Options.Folder: those whose processes
// still run, and those that have ended by themselves.
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
		// Supervisors work elsewhere.
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

// NotifyPods implements node.PodNotifier. Pods that were found are told at once.
func (p *Provider) NotifyPods(_ context.Context, cb func(*corev1.Pod)) {
	p.mu.Lock()
	p.notify = cb
	var found []*runningPod
	for _, r := range p.pods {
		found = append(found, r)
	}
	p.mu.Unlock()
	for _, r := range found {
		r.look()
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// CreatePod starts the processes of a pod.
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

// add begins to follow a pod, which may be one that was found. The lock is held.
func (p *Provider) add(pod *corev1.Pod, started *supervisor.Pod, found bool) error {
	if err := p.watcher.Add(filepath.Dir(started.StateFile())); err != nil {
		return fmt.Errorf("pod %s: watch its state: %w", klog.KObj(pod), err)
	}
	r := newRunningPod(p, pod, started)
	if found {
		r.skipEvents()
	}
	p.pods[nameOf(pod)] = r
	r.look() // its state may have changed before
	p.group.Go(r.follow)
	return nil
}

// adopt finds the pods of earlier providers. What is left of a pod that did not end by itself
// and has no process any more is removed: it is lost, and may be created again.
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
		if errors.Is(err, os.ErrNotExist) { // nothing was started
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

// watch hands over which states change, until the watcher is closed.
func (p *Provider) watch() {
	for {
		select {
		case event, open := <-p.watcher.Events:
			if !open {
				return
			}
			p.lookAt(func(r *runningPod) bool { return r.supervisor().StateFile() == event.Name })
		case _, open := <-p.watcher.Errors:
			if !open {
				return
			}
			p.lookAt(func(*runningPod) bool { return true }) // events were lost
		}
	}
}

func (p *Provider) lookAt(which func(*runningPod) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.pods {
		if which(r) {
			r.look()
		}
	}
}

// UpdatePod changes a pod's metadata, and when its time is over. Its processes stay as they are.
func (p *Provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	r, err := p.find(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	r.update(pod)
	return nil
}

// DeletePod tells the processes of a pod to end, and kills them when its grace is over. A
// second call may shorten the grace, and does not prolong it. The pod is known until its
// processes have ended; the call after that forgets it, and removes its logs. A pod without
// grace is forgotten when its processes have ended: nobody may ask again.
func (p *Provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	r, err := p.find(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	grace := ptr.To[int64](corev1.DefaultTerminationGracePeriodSeconds)
	grace = firstOf(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, grace)
	if *grace == 0 {
		r.gone.Store(true) // before over is asked: follow does it the other way round
	}
	if r.over() {
		return p.forget(r)
	}
	return r.end(time.Duration(*grace) * time.Second)
}

// forget removes what is left of a pod that has ended.
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
	_ = p.watcher.Remove(filepath.Dir(r.supervisor().StateFile())) // it goes with the folder, too
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

// Close ends all pods within the grace, and returns when all processes have ended.
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

// leave ends what this provider does. Processes run on.
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
