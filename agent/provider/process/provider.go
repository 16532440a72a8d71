package process

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/internal/podstatus"
)

// Options configure a Provider.
type Options struct {
	// LogFolder is where the output of containers goes. It is required.
	LogFolder string
	// Devices returns the names of the CDI devices that a container of a pod has. nil
	// stands for none.
	Devices func(ctx context.Context, pod *corev1.Pod, container string) ([]string, error)
	// CDIFolders are where CDI specs are. Empty stands for the usual folders.
	CDIFolders []string
}

// Provider runs the pods of one node. It implements node.PodLifecycleHandler and
// node.PodNotifier. Methods may be called concurrently.
type Provider struct {
	options  Options
	registry *cdi.Cache

	mu     sync.Mutex
	pods   map[types.NamespacedName]*runningPod
	notify func(*corev1.Pod)
	closed bool
	group  sync.WaitGroup // of pods
}

// runningPod is a pod with its processes.
type runningPod struct {
	folder string
	pod    *corev1.Pod // as it was created
	stop   context.CancelFunc

	mu       sync.Mutex
	reported *corev1.Pod // with its status; what was handed out is not modified
	states   []corev1.ContainerStatus
	deadline time.Time // when what still runs is killed, once it is to end
}

// New returns a provider without pods.
func New(options Options) (*Provider, error) {
	if options.LogFolder == "" {
		return nil, errdefs.InvalidInput("process provider: LogFolder is required")
	}
	settings := []cdi.Option{cdi.WithAutoRefresh(false)}
	if len(options.CDIFolders) > 0 {
		settings = append(settings, cdi.WithSpecDirs(options.CDIFolders...))
	}
	registry, err := cdi.NewCache(settings...)
	if err != nil {
		return nil, fmt.Errorf("process provider: %w", err)
	}
	return &Provider{options: options, registry: registry, pods: make(map[types.NamespacedName]*runningPod), notify: func(*corev1.Pod) {}}, nil
}

// NotifyPods implements node.PodNotifier.
func (p *Provider) NotifyPods(_ context.Context, cb func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = cb
}

// CreatePod starts the processes of a pod.
func (p *Provider) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	commands, err := p.commands(ctx, pod)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	switch _, exists := p.pods[name]; {
	case p.closed:
		return fmt.Errorf("pod %s: the provider is closed", name)
	case exists:
		return fmt.Errorf("pod %s: exists already", name)
	}
	// The pod outlives the call that creates it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &runningPod{folder: p.options.LogFolder, pod: pod, stop: stop, reported: pod}
	for i := range pod.Spec.Containers {
		r.states = append(r.states, podstatus.Waiting(&pod.Spec.Containers[i], 0, "ContainerCreating"))
	}
	p.pods[name] = r
	p.group.Go(func() { p.run(running, r, commands) })
	return nil
}

func (p *Provider) commands(ctx context.Context, pod *corev1.Pod) ([]*command, error) {
	if err := checkPod(pod); err != nil {
		return nil, err
	}
	if err := p.registry.Refresh(); err != nil {
		return nil, fmt.Errorf("CDI specs: %w", err)
	}
	var commands []*command
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		var devices []string
		var err error
		if p.options.Devices != nil {
			if devices, err = p.options.Devices(ctx, pod, container.Name); err != nil {
				return nil, fmt.Errorf("container %s: devices: %w", container.Name, err)
			}
		}
		command, err := commandOf(pod, container, p.registry, devices)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", container.Name, err)
		}
		commands = append(commands, command)
	}
	return commands, nil
}

// run runs the containers of a pod until none is to run again.
func (p *Provider) run(ctx context.Context, r *runningPod, commands []*command) {
	since := metav1.Now()
	var containers sync.WaitGroup
	for i, command := range commands {
		containers.Go(func() {
			r.runContainer(ctx, &r.pod.Spec.Containers[i], command, func(status corev1.ContainerStatus) {
				p.report(r, since, func() { r.states[i] = status }, false)
			})
		})
	}
	containers.Wait()
	p.report(r, since, func() {}, true)
}

// report tells what became of a pod, in order.
func (p *Provider) report(r *runningPod, since metav1.Time, change func(), over bool) {
	p.mu.Lock()
	notify := p.notify
	p.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	changed := *r.reported
	changed.Status = podstatus.Of(r.reported, since, nil, slices.Clone(r.states), over, metav1.Now())
	r.reported = &changed
	notify(r.reported)
}

// UpdatePod changes a pod's metadata. Its processes stay as they are.
func (p *Provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	r, err := p.find(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	updated := *pod
	updated.Status = r.reported.Status
	r.reported = &updated
	return nil
}

// DeletePod tells the processes of a pod to end, and kills them when its grace is over. The
// pod is known until they have ended.
func (p *Provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	r, err := p.find(pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	for _, seconds := range []*int64{pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds} {
		if seconds != nil {
			grace = *seconds
			break
		}
	}
	r.end(time.Duration(grace) * time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.over() {
		delete(p.pods, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	return nil
}

// end has the processes end within a time from now.
func (r *runningPod) end(grace time.Duration) {
	r.mu.Lock()
	if r.deadline.IsZero() {
		r.deadline = time.Now().Add(grace)
	}
	r.mu.Unlock()
	r.stop()
}

func (r *runningPod) graceLeft() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.deadline)
}

func (r *runningPod) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported.Status.Phase == corev1.PodSucceeded || r.reported.Status.Phase == corev1.PodFailed
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
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported, nil
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
		r.mu.Lock()
		pods = append(pods, r.reported)
		r.mu.Unlock()
	}
	return pods, nil
}

// Close ends all pods within the grace, and returns when all processes have ended.
func (p *Provider) Close(grace time.Duration) {
	p.mu.Lock()
	p.closed = true
	for _, r := range p.pods {
		r.end(grace)
	}
	p.mu.Unlock()
	p.group.Wait()
}
