package process

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// rule says what becomes of a field of a pod's spec. A field that is not set has its
// default, and needs none.
type rule struct {
	// inside is set if the rules of the fields below say it.
	inside bool
	// refuses tells whether a value is refused. nil stands for no value: the field is
	// honoured, or harmless.
	refuses func(value reflect.Value) bool
	// why it is refused or harmless. A field that is honoured needs no reason.
	why string
}

var (
	inside   = rule{inside: true}
	honoured = rule{}
)

func harmless(why string) rule { return rule{why: why} }

func refused(why string) rule {
	return rule{refuses: func(reflect.Value) bool { return true }, why: why}
}

// refusedUnless refuses all values but these.
func refusedUnless[T comparable](why string, accepted ...T) rule {
	return rule{why: why, refuses: func(value reflect.Value) bool {
		return !slices.Contains(accepted, value.Interface().(T))
	}}
}

// Reasons that several fields share.
const (
	forScheduler = "the scheduler reads it, not the node"
	forImages    = "images are not run"
	noModules    = "processes run without a security module"
	noProbes     = "probes are not run, so nothing would act on them"
	noVolumes    = "processes have no volumes"
	noWindows    = "processes run on Linux"
	noTerminal   = "processes have no input and no terminal"
	noRefs       = "processes have no ConfigMaps, Secrets and files of others"
)

// fieldRules has every field of a pod's spec, with the names that the API gives them. A field
// that it does not have is refused.
var fieldRules = func() map[string]rule {
	rules := map[string]rule{
		"activeDeadlineSeconds":         honoured,
		"affinity":                      harmless(forScheduler),
		"automountServiceAccountToken":  harmless("no process gets a token"),
		"containers":                    inside,
		"dnsConfig":                     refused("processes resolve names as the machine does"),
		"dnsPolicy":                     refusedUnless("processes resolve names as the machine does", corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSClusterFirstWithHostNet),
		"enableServiceLinks":            harmless("no variables of Services are set; they are the API's best effort"),
		"ephemeralContainers":           refused("processes cannot be joined"),
		"evictionResponders":            harmless("controllers read it, not the node"),
		"hostAliases":                   refused("processes resolve names as the machine does"),
		"hostIPC":                       refusedUnless("each pod has its own IPC namespace", false),
		"hostNetwork":                   honoured,
		"hostPID":                       refusedUnless("each container has its own PID namespace", false),
		"hostUsers":                     refusedUnless("the pod's users are those of the machine", true),
		"hostname":                      honoured,
		"hostnameOverride":              refused("the host name of a pod is its name, or its hostname"),
		"imagePullSecrets":              harmless(forImages),
		"initContainers":                refused("processes have none"),
		"nodeName":                      harmless(forScheduler),
		"nodeSelector":                  harmless(forScheduler),
		"os":                            inside,
		"os.name":                       refusedUnless(noWindows, corev1.Linux),
		"overhead":                      harmless(forScheduler),
		"preemptionPolicy":              harmless(forScheduler),
		"priority":                      harmless(forScheduler),
		"priorityClassName":             harmless(forScheduler),
		"readinessGates":                refused("the node would call the pod ready without them"),
		"resourceClaims":                honoured,
		"resources":                     inside,
		"resources.claims":              refused("claims are of containers"),
		"resources.limits":              refused("limits are of containers"),
		"resources.requests":            harmless(forScheduler),
		"restartPolicy":                 honoured,
		"runtimeClassName":              refused("there is no container runtime"),
		"schedulerName":                 harmless(forScheduler),
		"schedulingGates":               harmless(forScheduler),
		"schedulingGroup":               harmless(forScheduler),
		"securityContext":               inside,
		"serviceAccount":                harmless("no process gets a token"),
		"serviceAccountName":            harmless("no process gets a token"),
		"setHostnameAsFQDN":             refusedUnless("the host name of a pod is its name, or its hostname", false),
		"shareProcessNamespace":         refusedUnless("each container has its own PID namespace", false),
		"subdomain":                     harmless("it makes a name in DNS, which the node does not serve"),
		"terminationGracePeriodSeconds": honoured,
		"tolerations":                   harmless(forScheduler),
		"topologySpreadConstraints":     harmless(forScheduler),
		"volumes":                       {refuses: isVolume, why: noVolumes},
	}
	add(rules, "securityContext", map[string]rule{
		"appArmorProfile":          refused(noModules),
		"fsGroup":                  honoured,
		"fsGroupChangePolicy":      harmless(noVolumes),
		"runAsGroup":               honoured,
		"runAsNonRoot":             honoured,
		"runAsUser":                honoured,
		"seLinuxChangePolicy":      harmless(noVolumes),
		"seLinuxOptions":           refused(noModules),
		"seccompProfile":           {refuses: isOtherProfile, why: "the type must be RuntimeDefault: each process has this filter, and no other"},
		"supplementalGroups":       honoured,
		"supplementalGroupsPolicy": harmless("there is no image that adds groups, so Merge and Strict are the same"),
		"sysctls":                  refused("no settings of the kernel are changed"),
		"windowsOptions":           refused(noWindows),
	})
	add(rules, "containers", containerRules)
	return rules
}()

// containerRules are those below containers.
var containerRules = map[string]rule{
	"args":                           honoured,
	"command":                        honoured,
	"env":                            inside,
	"env.name":                       honoured,
	"env.value":                      honoured,
	"env.valueFrom":                  inside,
	"env.valueFrom.configMapKeyRef":  refused(noRefs),
	"env.valueFrom.fieldRef":         honoured,
	"env.valueFrom.fileKeyRef":       refused(noRefs),
	"env.valueFrom.resourceFieldRef": refused("processes do not know their resources"),
	"env.valueFrom.secretKeyRef":     refused(noRefs),
	"envFrom":                        refused(noRefs),
	"image":                          harmless(forImages),
	"imagePullPolicy":                harmless(forImages),
	"lifecycle":                      refused("hooks and stop signals are not run or sent"),
	"livenessProbe":                  refused(noProbes),
	"name":                           honoured,
	"ports":                          inside,
	"ports.containerPort":            harmless("it is informational"),
	"ports.hostIP":                   refused("no port of the machine leads to a pod"),
	"ports.hostPort":                 {refuses: never, why: "it is refused unless the pod has hostNetwork"},
	"ports.name":                     harmless("it is informational"),
	"ports.protocol":                 harmless("it is informational"),
	"readinessProbe":                 refused(noProbes),
	"resizePolicy":                   harmless("what a process may use is not changed while it runs"),
	"resources":                      inside,
	"resources.claims":               honoured,
	"resources.limits":               {refuses: limitsUse, why: "the use of CPU, memory and storage by processes is not limited"},
	"resources.requests":             harmless(forScheduler),
	"restartPolicy":                  refused("the restart policy is that of the pod"),
	"restartPolicyRules":             refused("the restart policy is that of the pod"),
	"securityContext":                inside,
	"startupProbe":                   refused(noProbes),
	"stdin":                          refusedUnless(noTerminal, false),
	"stdinOnce":                      refusedUnless(noTerminal, false),
	"terminationMessagePath":         refusedUnless("no message is read from a file", corev1.TerminationMessagePathDefault),
	"terminationMessagePolicy":       harmless("no message is read; the log has what the process wrote"),
	"tty":                            refusedUnless(noTerminal, false),
	"volumeDevices":                  refused(noVolumes),
	"volumeMounts":                   {refuses: isMount, why: noVolumes},
	"workingDir":                     honoured,

	"securityContext.allowPrivilegeEscalation": refusedUnless("processes get no new privileges", false),
	"securityContext.appArmorProfile":          refused(noModules),
	"securityContext.capabilities":             inside,
	"securityContext.capabilities.add":         refused("processes have no capabilities"),
	"securityContext.capabilities.drop":        honoured, // all are dropped
	"securityContext.privileged":               refusedUnless("processes have no more rights than their user", false),
	"securityContext.procMount":                refusedUnless("/proc is that of the container", corev1.DefaultProcMount),
	"securityContext.readOnlyRootFilesystem":   honoured,
	"securityContext.runAsGroup":               honoured,
	"securityContext.runAsNonRoot":             honoured,
	"securityContext.runAsUser":                honoured,
	"securityContext.seLinuxOptions":           refused(noModules),
	"securityContext.seccompProfile":           {refuses: isOtherProfile, why: "the type must be RuntimeDefault: each process has this filter, and no other"},
	"securityContext.windowsOptions":           refused(noWindows),
}

func add(rules map[string]rule, below string, more map[string]rule) {
	for name, r := range more {
		rules[below+"."+name] = r
	}
}

func never(reflect.Value) bool { return false }

// isVolume tells whether a pod has volumes besides the one for its token, which the API
// server adds to each.
func isVolume(value reflect.Value) bool {
	return slices.ContainsFunc(value.Interface().([]corev1.Volume), func(volume corev1.Volume) bool {
		return volume.Projected == nil || !strings.HasPrefix(volume.Name, "kube-api-access-")
	})
}

// serviceAccountPath is where pods get a token that the API server adds by itself. Processes
// do without.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

func isMount(value reflect.Value) bool {
	return slices.ContainsFunc(value.Interface().([]corev1.VolumeMount), func(mount corev1.VolumeMount) bool {
		return mount.MountPath != serviceAccountPath
	})
}

func isOtherProfile(value reflect.Value) bool {
	return value.Interface().(corev1.SeccompProfile).Type != corev1.SeccompProfileTypeRuntimeDefault
}

// limitsUse tells whether there are limits besides those of devices, which claims stand for.
func limitsUse(value reflect.Value) bool {
	for name := range value.Interface().(corev1.ResourceList) {
		if !strings.Contains(string(name), "/") || strings.HasPrefix(string(name), "kubernetes.io/") {
			return true
		}
	}
	return false
}

// checkFields refuses what is set in a pod's spec and cannot be honoured.
func checkFields(pod *corev1.Pod) error {
	if err := checkValue("", "spec", reflect.ValueOf(pod.Spec)); err != nil {
		return err
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort != 0 && !pod.Spec.HostNetwork {
				return errdefs.InvalidInputf("spec.containers[%s].ports.hostPort: %d: no port of the machine leads to a pod without hostNetwork", container.Name, port.HostPort)
			}
		}
	}
	return nil
}

// checkValue goes through the fields of a struct whose rule is inside. The key is its place
// among the rules, and the path is for people.
func checkValue(key, path string, value reflect.Value) error {
	for i := range value.NumField() {
		name := jsonName(value.Type().Field(i))
		field := value.Field(i)
		if field.IsZero() {
			continue
		}
		if err := checkField(strings.TrimPrefix(key+"."+name, "."), path+"."+name, reflect.Indirect(field)); err != nil {
			return err
		}
	}
	return nil
}

func checkField(key, path string, value reflect.Value) error {
	r, known := fieldRules[key]
	switch {
	case !known:
		return errdefs.InvalidInputf("%s: dray-agent does not know this field", path)
	case r.inside && value.Kind() == reflect.Slice:
		for i := range value.Len() {
			element := value.Index(i)
			if err := checkValue(key, fmt.Sprintf("%s[%s]", path, elementName(element, i)), element); err != nil {
				return err
			}
		}
	case r.inside:
		return checkValue(key, path, value)
	case r.refuses != nil && r.refuses(value):
		return errdefs.InvalidInputf("%s: %s", path, r.why)
	}
	return nil
}

// elementName is the name of an element of a list, or its number.
func elementName(element reflect.Value, i int) string {
	if name := element.FieldByName("Name"); name.IsValid() && name.String() != "" {
		return name.String()
	}
	return fmt.Sprint(i)
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
