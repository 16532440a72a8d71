// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// rule says what the provider does with a field of a pod's spec that differs from its default.
type rule struct {
	// inside is set if the field is a struct, and the rules of its fields decide.
	inside bool
	// refuses tells whether a value is refused. If it is nil, no value is: the field is
	// implemented, or ignored.
	refuses func(value reflect.Value) bool
	// why says why the field is refused or ignored. It is empty if the field is implemented.
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

// refusedUnless refuses all values except the accepted ones.
func refusedUnless[T comparable](why string, accepted ...T) rule {
	return rule{why: why, refuses: func(value reflect.Value) bool {
		return !slices.Contains(accepted, value.Interface().(T))
	}}
}

// Reasons of several rules.
const (
	forScheduler = "the scheduler reads it, not the node"
	notAgain     = "the scheduler decided; kubelet looks at it again, and this node does not"
	forImages    = "images are not run"
	noModules    = "processes run without a security module"
	noVolumes    = "processes have volumes of the kind emptyDir only"
	noDevices    = "processes have no block devices of volumes"
	policyOfPod  = "the restart policy is that of the pod"
	noWindows    = "processes run on Linux"
	noTerminal   = "processes have no input and no terminal"
	onlyUse      = "only the use of CPU and memory is limited"
	noRefs       = "processes have no ConfigMaps, Secrets and files of others"
)

// fieldRules has a rule for every field of a pod's spec, by its JSON name. A field without a rule
// is refused.
var fieldRules = func() map[string]rule {
	rules := map[string]rule{
		"activeDeadlineSeconds":         honoured,
		"affinity":                      harmless(notAgain),
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
		"initContainers":                inside,
		"nodeName":                      harmless(forScheduler),
		"nodeSelector":                  harmless(notAgain),
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
		"resources.limits":              {refuses: limitsOther, why: onlyUse},
		"resources.requests":            honoured, // as a CPU weight, if there are cgroups
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
		"volumes":                       inside,
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
	add(rules, "volumes", volumeRules)
	add(rules, "containers", containerRules)
	add(rules, "initContainers", containerRules)
	rules["initContainers.restartPolicy"] = refusedUnless("init containers run once, or always", corev1.ContainerRestartPolicyAlways)
	for _, container := range []string{"containers", "initContainers"} {
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			add(rules, container+"."+probe, probeRules)
		}
	}
	return rules
}()

// volumeRules are the rules for fields of a volume.
var volumeRules = func() map[string]rule {
	rules := map[string]rule{
		"name":               honoured,
		"emptyDir":           inside,
		"emptyDir.medium":    refusedUnless("files are on the disk or in memory", corev1.StorageMediumDefault, corev1.StorageMediumMemory),
		"emptyDir.mode":      honoured,
		"emptyDir.sizeLimit": {refuses: never, why: "it is refused unless the medium is Memory"},
		"projected":          {refuses: never, why: "it is refused unless the API server added it for a token"},
	}
	for _, kind := range []string{
		"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi", "downwardAPI", "ephemeral", "fc",
		"flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "image", "iscsi", "nfs", "persistentVolumeClaim",
		"photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume",
	} {
		rules[kind] = refused(noVolumes)
	}
	return rules
}()

// probeRules are the rules for fields of a probe.
var probeRules = map[string]rule{
	"exec":                          honoured,
	"failureThreshold":              honoured,
	"grpc":                          inside,
	"grpc.mode":                     refusedUnless("the connection is not encrypted", corev1.GRPCProbeMode("Plaintext")),
	"grpc.port":                     honoured,
	"grpc.service":                  honoured,
	"httpGet":                       inside,
	"httpGet.host":                  honoured,
	"httpGet.httpHeaders":           honoured,
	"httpGet.path":                  honoured,
	"httpGet.port":                  honoured,
	"httpGet.protocol":              refusedUnless("requests are of HTTP/1.1, or what TLS agrees on", corev1.HTTPProtocolHTTP1),
	"httpGet.scheme":                honoured,
	"initialDelaySeconds":           honoured,
	"periodSeconds":                 honoured,
	"successThreshold":              honoured,
	"tcpSocket":                     honoured,
	"terminationGracePeriodSeconds": honoured,
	"timeoutSeconds":                honoured,
}

// containerRules are the rules for fields of a container.
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
	"livenessProbe":                  inside,
	"name":                           honoured,
	"ports":                          inside,
	"ports.containerPort":            harmless("it is informational"),
	"ports.hostIP":                   refused("no port of the machine leads to a pod"),
	"ports.hostPort":                 {refuses: never, why: "it is refused unless the pod has hostNetwork"},
	"ports.name":                     harmless("it is informational"),
	"ports.protocol":                 harmless("it is informational"),
	"readinessProbe":                 inside,
	"resizePolicy":                   harmless("what a process may use is not changed while it runs"),
	"resources":                      inside,
	"resources.claims":               honoured,
	"resources.limits":               {refuses: limitsOther, why: onlyUse},
	"resources.requests":             honoured, // as a CPU weight, if there are cgroups
	"restartPolicy":                  refused(policyOfPod),
	"restartPolicyRules":             refused(policyOfPod),
	"securityContext":                inside,
	"startupProbe":                   inside,
	"stdin":                          refusedUnless(noTerminal, false),
	"stdinOnce":                      refusedUnless(noTerminal, false),
	"terminationMessagePath":         refusedUnless("no message is read from a file", corev1.TerminationMessagePathDefault),
	"terminationMessagePolicy":       harmless("no message is read from a file; that of FallbackToLogsOnError is"),
	"tty":                            refusedUnless(noTerminal, false),
	"volumeDevices":                  refused(noDevices),
	"volumeMounts":                   inside,
	"volumeMounts.bindMountOptions":  refused("a mount has the options of its volume"),
	"volumeMounts.mountPath":         honoured,
	"volumeMounts.mountPropagation":  refusedUnless("mounts are of one container", corev1.MountPropagationNone),
	"volumeMounts.name":              honoured,
	"volumeMounts.readOnly":          honoured,
	"volumeMounts.recursiveReadOnly": refusedUnless("nothing is mounted below a volume", corev1.RecursiveReadOnlyDisabled),
	"volumeMounts.subPath":           refused("the whole volume is mounted"),
	"volumeMounts.subPathExpr":       refused("the whole volume is mounted"),
	"workingDir":                     honoured,

	"securityContext.allowPrivilegeEscalation": refusedUnless("processes get no new privileges", false),
	"securityContext.appArmorProfile":          refused(noModules),
	"securityContext.capabilities":             inside,
	"securityContext.capabilities.add":         refused("processes have no capabilities"),
	"securityContext.capabilities.drop":        honoured, // all capabilities are dropped
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

// isToken tells whether a volume is the projected service account token that the API server adds.
// It is ignored.
func isToken(volume *corev1.Volume) bool {
	return volume.Projected != nil && strings.HasPrefix(volume.Name, "kube-api-access-")
}

// serviceAccountPath is where containers mount the service account token.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// checkVolumes refuses volumes by rules that involve more than one field.
func checkVolumes(pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Projected != nil && !isToken(volume) {
			return errdefs.InvalidInputf("spec.volumes[%s].projected: %s", volume.Name, noVolumes)
		}
		if dir := volume.EmptyDir; dir != nil && dir.SizeLimit != nil && !dir.SizeLimit.IsZero() && dir.Medium != corev1.StorageMediumMemory {
			return errdefs.InvalidInputf("spec.volumes[%s].emptyDir.sizeLimit: %s: the use of the disk is not limited; the medium Memory is", volume.Name, dir.SizeLimit)
		}
	}
	return nil
}

func isOtherProfile(value reflect.Value) bool {
	return value.Interface().(corev1.SeccompProfile).Type != corev1.SeccompProfileTypeRuntimeDefault
}

// limitsOther tells whether there are limits of other resources than CPU, memory and extended
// resources.
func limitsOther(value reflect.Value) bool {
	for name := range value.Interface().(corev1.ResourceList) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && (!strings.Contains(string(name), "/") || strings.HasPrefix(string(name), "kubernetes.io/")) {
			return true
		}
	}
	return false
}

// checkFields refuses a pod whose spec sets a field that is not supported.
func checkFields(pod *corev1.Pod) error {
	if err := checkValue("", "spec", reflect.ValueOf(pod.Spec)); err != nil {
		return err
	}
	if err := checkVolumes(pod); err != nil {
		return err
	}
	for field, containers := range map[string][]corev1.Container{"initContainers": pod.Spec.InitContainers, "containers": pod.Spec.Containers} {
		for i := range containers {
			if err := checkPorts(pod, &containers[i]); err != nil {
				return errdefs.InvalidInputf("spec.%s[%s].%w", field, containers[i].Name, err)
			}
		}
	}
	return nil
}

func checkPorts(pod *corev1.Pod, container *corev1.Container) error {
	for _, port := range container.Ports {
		if port.HostPort != 0 && !pod.Spec.HostNetwork {
			return fmt.Errorf("ports.hostPort: %d: no port of the machine leads to a pod without hostNetwork", port.HostPort)
		}
	}
	return nil
}

// checkValue checks the fields of a struct. key is its path in fieldRules, and path its path in
// errors.
func checkValue(key, path string, value reflect.Value) error {
	for i := range value.NumField() {
		name := jsonName(value.Type().Field(i))
		field := value.Field(i)
		if field.IsZero() {
			continue
		}
		if name == "" { // embedded: its fields are those of the outer struct
			if err := checkValue(key, path, field); err != nil {
				return err
			}
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

// elementName returns the name of a list's element, or its index.
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
