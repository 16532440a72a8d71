// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	lister "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/downward"
	"github.com/dray-project/dray/agent/internal/expansion"
)

// environment resolves references of containers' environment variables: to ConfigMaps, Secrets,
// Services and fields of the pod. The provider gets literal values, as a container runtime gets
// them from kubelet. env overrides envFrom, and both override the variables of Services.
type environment struct {
	configMaps lister.ConfigMapLister
	secrets    lister.SecretLister
	services   lister.ServiceLister
	recorder   record.EventRecorder
}

// reasonInvalidNames is the reason of an Event about keys that are not valid names of variables.
// Other Events have reasons such as OptionalSecretKeyNotFound. All reasons are virtual-kubelet's.
const reasonInvalidNames = "InvalidEnvironmentVariableNames"

// resolved returns a copy of a pod whose containers' variables have literal values. If something
// required does not exist, it returns an error and records an Event. Another attempt may find it.
func (e *environment) resolved(pod *corev1.Pod) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	services, err := e.ofServices(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s: services: %w", keyOf(pod), err)
	}
	resolve := func(c *corev1.Container) error {
		variables, err := e.variables(pod, c, services)
		if err != nil {
			return fmt.Errorf("pod %s: container %s: %w", keyOf(pod), c.Name, err)
		}
		c.EnvFrom, c.Env = nil, make([]corev1.EnvVar, 0, len(variables))
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: variables[name]})
		}
		return nil
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if err := resolve(&containers[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		common := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if err := resolve(&common); err != nil {
			return nil, err
		}
		pod.Spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(common)
	}
	return pod, nil
}

func (e *environment) variables(pod *corev1.Pod, c *corev1.Container, services map[string]string) (map[string]string, error) {
	out := make(map[string]string)
	for i := range c.EnvFrom {
		if err := e.addAll(pod, &c.EnvFrom[i], out); err != nil {
			return nil, fmt.Errorf("envFrom[%d]: %w", i, err)
		}
	}
	for i := range c.Env {
		variable := &c.Env[i]
		if variable.ValueFrom == nil {
			known := maps.Clone(services)
			maps.Copy(known, out)
			out[variable.Name] = expansion.Expand(variable.Value, known)
			continue
		}
		value, found, err := e.value(pod, c, variable)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", variable.Name, err)
		}
		if found {
			out[variable.Name] = value
		}
	}
	for name, value := range services {
		if _, ok := out[name]; !ok {
			out[name] = value
		}
	}
	return out, nil
}

// addAll adds all entries of a ConfigMap or Secret as variables.
func (e *environment) addAll(pod *corev1.Pod, from *corev1.EnvFromSource, variables map[string]string) error {
	var kind, name string
	var optional *bool
	switch {
	case from.ConfigMapRef != nil:
		kind, name, optional = kindConfigMap, from.ConfigMapRef.Name, from.ConfigMapRef.Optional
	case from.SecretRef != nil:
		kind, name, optional = kindSecret, from.SecretRef.Name, from.SecretRef.Optional
	default:
		return nil
	}
	data, _, err := e.read(pod, kind, name, ptr.Deref(optional, false))
	if err != nil {
		return err
	}
	var invalid []string
	for key, value := range data {
		variable := from.Prefix + key
		if len(validation.IsEnvVarName(variable)) > 0 {
			invalid = append(invalid, variable)
			continue
		}
		variables[variable] = value
	}
	if len(invalid) > 0 {
		slices.Sort(invalid)
		e.recorder.Eventf(pod, corev1.EventTypeWarning, reasonInvalidNames, "%s %s/%s: left out, because they cannot be names of variables: %s", kind, pod.Namespace, name, strings.Join(invalid, ", "))
	}
	return nil
}

const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
)

// read returns the data of a ConfigMap or Secret. A missing optional one is no error, but it
// records an Event, too.
func (e *environment) read(pod *corev1.Pod, kind, name string, optional bool) (data map[string]string, found bool, err error) {
	if kind == kindConfigMap {
		var object *corev1.ConfigMap
		if object, err = e.configMaps.ConfigMaps(pod.Namespace).Get(name); err == nil {
			return object.Data, true, nil
		}
	} else {
		var object *corev1.Secret
		if object, err = e.secrets.Secrets(pod.Namespace).Get(name); err == nil {
			data = make(map[string]string, len(object.Data))
			for key, value := range object.Data {
				data[key] = string(value)
			}
			return data, true, nil
		}
	}
	reason := necessity(optional) + kind + "NotFound"
	if !apierrors.IsNotFound(err) {
		reason = "FailedToRead" + necessity(optional) + kind
	}
	return nil, false, e.missing(pod, optional, reason, fmt.Errorf("%s %s/%s: %w", kind, pod.Namespace, name, err))
}

func necessity(optional bool) string {
	if optional {
		return "Optional"
	}
	return "Mandatory"
}

// missing records an Event about something that does not exist. It returns why, or nil if it was
// optional.
func (e *environment) missing(pod *corev1.Pod, optional bool, reason string, why error) error {
	e.recorder.Event(pod, corev1.EventTypeWarning, reason, why.Error())
	if optional {
		return nil
	}
	return why
}

// value returns the value of a variable that has a reference. If found is false, the container does
// not get the variable.
func (e *environment) value(pod *corev1.Pod, c *corev1.Container, variable *corev1.EnvVar) (value string, found bool, err error) {
	switch from := variable.ValueFrom; {
	case from.ConfigMapKeyRef != nil:
		return e.key(pod, kindConfigMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, ptr.Deref(from.ConfigMapKeyRef.Optional, false))
	case from.SecretKeyRef != nil:
		return e.key(pod, kindSecret, from.SecretKeyRef.Name, from.SecretKeyRef.Key, ptr.Deref(from.SecretKeyRef.Optional, false))
	case from.FieldRef != nil:
		value, err = downward.Field(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, found = resourceOf(pod, c, from.ResourceFieldRef)
		return value, found, nil
	}
	return "", false, nil // an unknown kind of reference, of a newer API
}

func (e *environment) key(pod *corev1.Pod, kind, name, key string, optional bool) (value string, found bool, err error) {
	data, found, err := e.read(pod, kind, name, optional)
	if !found {
		return "", false, err
	}
	if value, found = data[key]; !found {
		err = e.missing(pod, optional, necessity(optional)+kind+"KeyNotFound", fmt.Errorf("%s %s/%s: there is no key %q", kind, pod.Namespace, name, key))
	}
	return value, found, err
}

// resourceOf returns a request or limit of a container for the downward API. It is not found if the
// container does not set it: only the provider knows what the node has.
func resourceOf(pod *corev1.Pod, c *corev1.Container, of *corev1.ResourceFieldSelector) (string, bool) {
	if of.ContainerName != "" && of.ContainerName != c.Name {
		at := func(other corev1.Container) bool { return other.Name == of.ContainerName }
		if i := slices.IndexFunc(pod.Spec.Containers, at); i >= 0 {
			c = &pod.Spec.Containers[i]
		} else if i := slices.IndexFunc(pod.Spec.InitContainers, at); i >= 0 {
			c = &pod.Spec.InitContainers[i]
		} else {
			return "", false
		}
	}
	which, name, _ := strings.Cut(of.Resource, ".")
	list := c.Resources.Limits
	if which == "requests" {
		list = c.Resources.Requests
	}
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok {
		return "", false
	}
	divisor := of.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount, unit := quantity.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		amount, unit = quantity.MilliValue(), divisor.MilliValue()
	}
	if unit <= 0 {
		return "", false
	}
	return strconv.FormatInt((amount+unit-1)/unit, 10), true // rounded up
}

// ofServices returns the variables of Services in the pod's namespace, if enableServiceLinks is
// set, and of the service kubernetes.
func (e *environment) ofServices(pod *corev1.Pod) (map[string]string, error) {
	all, err := e.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	// Services of the pod's own namespace come last, so that they override others.
	slices.SortStableFunc(all, func(a, b *corev1.Service) int {
		return cmp.Or(boolCompare(a.Namespace == pod.Namespace, b.Namespace == pod.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, service := range all {
		api := service.Namespace == metav1.NamespaceDefault && service.Name == "kubernetes"
		linked := service.Namespace == pod.Namespace && ptr.Deref(pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
		hasAddress := service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone
		if (api || linked) && hasAddress && len(service.Spec.Ports) > 0 {
			addService(service, out)
		}
	}
	return out, nil
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// addService adds the variables of one Service: those of Kubernetes, and those compatible with
// Docker links.
func addService(service *corev1.Service, variables map[string]string) {
	name, address := variableName(service.Name), service.Spec.ClusterIP
	variables[name+"_SERVICE_HOST"] = address
	variables[name+"_SERVICE_PORT"] = strconv.Itoa(int(service.Spec.Ports[0].Port))
	for i, port := range service.Spec.Ports {
		number, protocol := strconv.Itoa(int(port.Port)), cmp.Or(string(port.Protocol), string(corev1.ProtocolTCP))
		if port.Name != "" {
			variables[name+"_SERVICE_PORT_"+variableName(port.Name)] = number
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(address, number)
		if i == 0 {
			variables[name+"_PORT"] = url
		}
		link := name + "_PORT_" + number + "_" + strings.ToUpper(protocol)
		variables[link], variables[link+"_PROTO"], variables[link+"_PORT"], variables[link+"_ADDR"] = url, strings.ToLower(protocol), number, address
	}
}

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
