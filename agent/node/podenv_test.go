// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node"
)

// withEnvironment has the controller find what variables refer to among these objects.
func (c *cluster) withEnvironment(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	for _, object := range objects {
		if err := c.client.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	core := c.factory.Core().V1()
	c.config.ConfigMapInformer, c.config.SecretInformer, c.config.ServiceInformer = core.ConfigMaps(), core.Secrets(), core.Services()
	core.ConfigMaps().Informer()
	core.Secrets().Informer()
	core.Services().Informer()
	return c
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: data}
}

func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: data}
}

func service(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func fromConfigMap(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func fromSecret(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func fromField(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func fromResource(container, name, divisor string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: name, Divisor: resource.MustParse(divisor)}}
}

// variables are what the container of the provider's pod a has, as NAME=value.
func (p *pods) variables(t *testing.T) []string {
	t.Helper()
	found, err := p.GetPod(t.Context(), "ns", "a")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, variable := range found.Spec.Containers[0].Env {
		out = append(out, variable.Name+"="+variable.Value)
		if variable.ValueFrom != nil {
			out = append(out, "unresolved "+variable.Name)
		}
	}
	if len(found.Spec.Containers[0].EnvFrom) > 0 {
		out = append(out, "unresolved envFrom")
	}
	return out
}

// environmentCase is what a container says of its variables, and what the provider is to get.
type environmentCase struct {
	env    []corev1.EnvVar
	from   []corev1.EnvFromSource
	links  bool // to Services
	want   []string
	events []string // besides those of success
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

var environments = map[string]environmentCase{
	"values that refer to those before them, and to Services": {
		env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A) $(LATER) $$(A) $(DB_SERVICE_HOST)"}, {Name: "LATER", Value: "2"}, {Name: "A", Value: "3"}},
		links: true,
		want: []string{"A=3", "B=1 $(LATER) $(A) 10.0.0.2",
			"DB_PORT=tcp://10.0.0.2:5432", "DB_PORT_53_UDP=udp://10.0.0.2:53", "DB_PORT_53_UDP_ADDR=10.0.0.2", "DB_PORT_53_UDP_PORT=53", "DB_PORT_53_UDP_PROTO=udp",
			"DB_PORT_5432_TCP=tcp://10.0.0.2:5432", "DB_PORT_5432_TCP_ADDR=10.0.0.2", "DB_PORT_5432_TCP_PORT=5432", "DB_PORT_5432_TCP_PROTO=tcp",
			"DB_SERVICE_HOST=10.0.0.2", "DB_SERVICE_PORT=5432", "DB_SERVICE_PORT_SQL_MAIN=5432",
			"KUBERNETES_PORT=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1", "KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
			"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443", "LATER=2"},
	},
	"a variable overrides that of a Service": {
		env:  []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: "mine"}},
		want: []string{"KUBERNETES_SERVICE_HOST=mine"},
	},
	"ConfigMaps and Secrets": {
		from: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("config")}}, {Prefix: "S_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("secret")}}},
		env:  []corev1.EnvVar{{Name: "ONE", Value: "env wins"}, {Name: "KEY", ValueFrom: fromConfigMap("config", "TWO", false)}, {Name: "PASSWORD", ValueFrom: fromSecret("secret", "password", false)}},
		want: []string{"KEY=2", "ONE=env wins", "PASSWORD=p", "S_password=p", "TWO=2"},
	},
	"keys that are no names": {
		from:   []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("odd")}}},
		want:   []string{"good=1"},
		events: []string{"Warning InvalidEnvironmentVariableNames"},
	},
	"what is optional and not there": {
		from: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("none"), Optional: ptr.To(true)}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("none"), Optional: ptr.To(true)}},
		},
		env: []corev1.EnvVar{
			{Name: "A", ValueFrom: fromConfigMap("none", "k", true)}, {Name: "B", ValueFrom: fromSecret("none", "k", true)},
			{Name: "C", ValueFrom: fromConfigMap("config", "k", true)}, {Name: "D", ValueFrom: fromSecret("secret", "k", true)}, {Name: "E", Value: "e"},
		},
		want: []string{"E=e"},
		events: []string{"Warning OptionalConfigMapNotFound", "Warning OptionalSecretNotFound", "Warning OptionalConfigMapNotFound", "Warning OptionalSecretNotFound",
			"Warning OptionalConfigMapKeyNotFound", "Warning OptionalSecretKeyNotFound"},
	},
	"fields": {
		env: []corev1.EnvVar{
			{Name: "A", ValueFrom: fromField("metadata.name")}, {Name: "B", ValueFrom: fromField("metadata.namespace")}, {Name: "C", ValueFrom: fromField("metadata.uid")},
			{Name: "D", ValueFrom: fromField("spec.nodeName")}, {Name: "E", ValueFrom: fromField("spec.serviceAccountName")},
			{Name: "F", ValueFrom: fromField("metadata.labels['app']")}, {Name: "G", ValueFrom: fromField("metadata.annotations['x.y/z']")},
			{Name: "H", ValueFrom: fromField("status.podIP")}, {Name: "I", ValueFrom: fromField("status.podIPs")}, {Name: "J", ValueFrom: fromField("status.hostIP")}, {Name: "K", ValueFrom: fromField("status.hostIPs")},
		},
		want: []string{"A=a", "B=ns", "C=uid-a", "D=" + nodeName, "E=robot", "F=web", "G=note", "H=10.1.0.1", "I=10.1.0.1,fd00::1", "J=192.0.2.1", "K=192.0.2.1"},
	},
	"resources": {
		env: []corev1.EnvVar{
			{Name: "A", ValueFrom: fromResource("", "limits.cpu", "0")}, {Name: "B", ValueFrom: fromResource("", "limits.cpu", "1m")}, {Name: "C", ValueFrom: fromResource("", "limits.memory", "1Mi")},
			{Name: "D", ValueFrom: fromResource("", "requests.cpu", "1m")}, {Name: "E", ValueFrom: fromResource("", "requests.memory", "1")}, {Name: "F", ValueFrom: fromResource("first", "limits.cpu", "1m")},
			{Name: "G", ValueFrom: fromResource("none", "limits.cpu", "1m")},
		},
		want: []string{"A=2", "B=1500", "C=2048", "D=100", "F=250"},
	},
}

func TestEnvironment(t *testing.T) {
	small := corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("2Gi")},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}
	for name, c := range environments {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := newPod("a")
				pod.Labels, pod.Annotations = map[string]string{"app": "web"}, map[string]string{"x.y/z": "note"}
				pod.Spec.ServiceAccountName, pod.Spec.EnableServiceLinks = "robot", ptr.To(c.links)
				pod.Status.PodIP, pod.Status.PodIPs, pod.Status.HostIP = "10.1.0.1", []corev1.PodIP{{IP: "10.1.0.1"}, {IP: "fd00::1"}}, "192.0.2.1"
				pod.Spec.InitContainers = []corev1.Container{{Name: "first", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}}}
				pod.Spec.Containers[0].Env, pod.Spec.Containers[0].EnvFrom, pod.Spec.Containers[0].Resources = c.env, c.from, small
				p := newPods()
				cluster := newCluster(t, notifier{p}, pod).withEnvironment(t,
					configMap("config", map[string]string{"ONE": "1", "TWO": "2"}), secret("secret", map[string][]byte{"password": []byte("p")}), configMap("odd", map[string]string{"good": "1", "": "2", "a=b": "3"}),
					service("ns", "db", "10.0.0.2", corev1.ServicePort{Name: "sql-main", Port: 5432}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}),
					service("ns", "headless", "None", corev1.ServicePort{Port: 1}), service("other", "far", "10.0.0.3", corev1.ServicePort{Port: 1}),
					service("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Port: 443}), service("default", "other", "10.0.0.4", corev1.ServicePort{Port: 1}))
				cluster.run(t)
				got := p.variables(t)
				if !c.links { // those of the API server are there in any case
					got = slices.DeleteFunc(got, func(variable string) bool {
						return strings.HasPrefix(variable, "KUBERNETES_") && !slices.Contains(c.want, variable)
					})
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
				cluster.expectEvents(t, append(c.events, "Normal ProviderCreateSuccess")...)
				if stored := cluster.pod(t, "a"); len(stored.Spec.Containers[0].Env) != len(c.env) {
					t.Errorf("the pod in Kubernetes has the variables %v", stored.Spec.Containers[0].Env)
				}
			})
		})
	}
}

// TestEnvironmentOfAllContainers has one variable in each kind of container.
func TestEnvironmentOfAllContainers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := newPod("a")
		env := []corev1.EnvVar{{Name: "POD", ValueFrom: fromField("metadata.name")}}
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Env: env}}
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: env}}}
		pod.Spec.Containers[0].Env = env
		p := newPods()
		c := newCluster(t, notifier{p}, pod).withEnvironment(t)
		c.run(t)
		got, err := p.GetPod(t.Context(), "ns", "a")
		if err != nil {
			t.Fatal(err)
		}
		cached, err := c.informer.Lister().Pods("ns").Get("a")
		if err != nil {
			t.Fatal(err)
		}
		if of := cached.Spec.Containers[0].Env; len(of) != 1 || of[0].ValueFrom == nil {
			t.Errorf("the informer's pod has %v", of)
		}
		for _, env := range [][]corev1.EnvVar{got.Spec.InitContainers[0].Env, got.Spec.Containers[0].Env, got.Spec.EphemeralContainers[0].Env} {
			if len(env) != 1 || env[0].Value != "a" || env[0].ValueFrom != nil {
				t.Errorf("got %v", env)
			}
		}
	})
}

// TestEnvironmentThatIsMissing has what a pod must have come later.
func TestEnvironmentThatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		env   corev1.EnvVar
		event string
		add   runtime.Object
	}{
		"ConfigMap":     {corev1.EnvVar{Name: "A", ValueFrom: fromConfigMap("later", "k", false)}, "Warning MandatoryConfigMapNotFound", configMap("later", map[string]string{"k": "v"})},
		"Secret":        {corev1.EnvVar{Name: "A", ValueFrom: fromSecret("later", "k", false)}, "Warning MandatorySecretNotFound", secret("later", map[string][]byte{"k": []byte("v")})},
		"ConfigMap key": {corev1.EnvVar{Name: "A", ValueFrom: fromConfigMap("empty", "k", false)}, "Warning MandatoryConfigMapKeyNotFound", nil},
		"Secret key":    {corev1.EnvVar{Name: "A", ValueFrom: fromSecret("empty", "k", false)}, "Warning MandatorySecretKeyNotFound", nil},
		"field":         {corev1.EnvVar{Name: "A", ValueFrom: fromField("spec.hostNetwork")}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := newPod("a")
				pod.Spec.Containers[0].Env = []corev1.EnvVar{c.env}
				p := newPods()
				cluster := newCluster(t, notifier{p}, pod).withEnvironment(t, configMap("empty", nil), secret("empty", nil))
				cluster.run(t)
				p.expect(t) // nothing
				if c.event != "" {
					event := <-cluster.events.Events
					if !strings.HasPrefix(event, c.event) {
						t.Errorf("the event is %s", event)
					}
				}
				if c.add == nil {
					return
				}
				if err := cluster.client.Tracker().Add(c.add); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if got := p.variables(t); !slices.Equal(got, []string{"A=v"}) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// TestEnvironmentThatIsMissingElsewhere: a pod is not run either if only an init container or an ephemeral one lacks a variable.
func TestEnvironmentThatIsMissingElsewhere(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", ValueFrom: fromConfigMap("none", "k", false)}}
	for name, change := range map[string]func(*corev1.PodSpec){
		"init": func(spec *corev1.PodSpec) { spec.InitContainers = []corev1.Container{{Name: "init", Env: env}} },
		"ephemeral": func(spec *corev1.PodSpec) {
			spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: env}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := newPod("a")
				change(&pod.Spec)
				p := newPods()
				cluster := newCluster(t, notifier{p}, pod).withEnvironment(t)
				cluster.run(t)
				p.expect(t) // nothing
				if event := <-cluster.events.Events; !strings.HasPrefix(event, "Warning MandatoryConfigMapNotFound") {
					t.Errorf("the event is %s", event)
				}
			})
		})
	}
}

// TestEnvironmentIsNotResolved without the informers, or if they are not wanted for that.
func TestEnvironmentIsNotResolved(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *cluster){
		"no informers": func(*testing.T, *cluster) {},
		"skipped":      func(t *testing.T, c *cluster) { c.withEnvironment(t); c.config.SkipDownwardAPIResolution = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := newPod("a")
				pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: fromField("metadata.name")}}
				p := newPods()
				c := newCluster(t, notifier{p}, pod)
				change(t, c)
				c.run(t)
				if got := p.variables(t); !slices.Equal(got, []string{"A=", "unresolved A"}) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
	p := newPods()
	c := newCluster(t, notifier{p}).withEnvironment(t)
	c.config.SecretInformer = nil
	if _, err := node.NewPodController(c.config); err == nil || !strings.Contains(err.Error(), "SecretInformer is required") {
		t.Errorf("got %v", err)
	}
}

// TestUpdatesAreResolved has a controller that begins anew with a pod that the provider has already.
func TestUpdatesAreResolved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		provided, pod := running(newPod("a")), running(newPod("a"))
		provided.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD", Value: "a"}}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD", ValueFrom: fromField("metadata.name")}}
		p := newPods(provided)
		c := newCluster(t, notifier{p}, pod).withEnvironment(t)
		c.run(t)
		p.expect(t) // it is the same
		changed := pod.DeepCopy()
		changed.Spec.Containers[0].Image = "image:2"
		c.updatePod(t, changed)
		p.expect(t, "update a")
		if got := p.variables(t); !slices.Equal(got, []string{"POD=a"}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestDanglingPodsAreGoneBeforeReady has a provider that takes a while.
func TestDanglingPodsAreGoneBeforeReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods(newPod("a"), newPod("b"), newPod("c"))
		p.remove = func(*corev1.Pod) error { time.Sleep(time.Minute); return nil }
		c := newCluster(t, notifier{p})
		controller, err := node.NewPodController(c.config)
		if err != nil {
			t.Fatal(err)
		}
		c.startInformers(t)
		start(t, func(ctx context.Context) error { return controller.Run(ctx, 2) })
		began := time.Now()
		<-controller.Ready()
		if left, _ := p.GetPods(t.Context()); len(left) > 0 || time.Since(began) < 2*time.Minute || time.Since(began) > 121*time.Second {
			t.Errorf("%d pods are left after %s, want none after 2m: two at a time", len(left), time.Since(began))
		}
	})
}

func TestDefaultRetryFunc(t *testing.T) {
	broken := errors.New("broken")
	for tried, gaveUp := range map[int]bool{1: false, node.MaxRetries - 1: false, node.MaxRetries: true, node.MaxRetries + 1: true} {
		pause, err := node.DefaultRetryFunc(t.Context(), "ns/a", tried, time.Now(), broken)
		if pause != nil || (err != nil) != gaveUp || gaveUp && !errors.Is(err, broken) {
			t.Errorf("after %d: %v, %v", tried, pause, err)
		}
	}
}

func TestQueueLengths(t *testing.T) {
	bubble(t, func(t *testing.T) {
		block := make(chan struct{})
		p := newPods()
		p.create = func(*corev1.Pod) error { <-block; return nil }
		c := newCluster(t, notifier{p}, newPod("a"), newPod("b"), newPod("c"))
		controller, _ := c.run(t) // two workers
		if all, waiting, handled := controller.SyncPodsFromKubernetesQueueLen(), controller.SyncPodsFromKubernetesQueueUnprocessedLen(),
			controller.SyncPodsFromKubernetesQueueItemsBeingProcessedLen(); all != 3 || waiting != 1 || handled != 2 {
			t.Errorf("%d keys, %d wait, %d are handled", all, waiting, handled)
		}
		if n := controller.DeletePodsFromKubernetesQueueLen() + controller.SyncPodStatusFromProviderQueueLen(); n != 0 {
			t.Errorf("%d keys in the other queues", n)
		}
		close(block)
		c.settle()
		if all := controller.SyncPodsFromKubernetesQueueLen(); all != 0 {
			t.Errorf("%d keys are left", all)
		}
	})
}
