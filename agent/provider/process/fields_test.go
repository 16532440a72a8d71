// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// fieldsOf calls visit for each field of a pod's spec that has or should have a rule: all but
// those below a field whose rule is not inside.
func fieldsOf(visit func(key string, field reflect.StructField, path []int)) {
	var walk func(t reflect.Type, key string, path []int)
	walk = func(t reflect.Type, key string, path []int) {
		for i := range t.NumField() {
			field := t.Field(i)
			here := append(slices.Clone(path), i)
			if jsonName(field) == "" { // its fields are those of the struct
				walk(field.Type, key, here)
				continue
			}
			name := strings.TrimPrefix(key+"."+jsonName(field), ".")
			visit(name, field, here)
			if fieldRules[name].inside {
				walk(elementType(field.Type), name, here)
			}
		}
	}
	walk(reflect.TypeFor[corev1.PodSpec](), "", nil)
}

func elementType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// TestEveryFieldHasARule also finds rules of fields that the API does not have.
func TestEveryFieldHasARule(t *testing.T) {
	seen := make(map[string]bool)
	fieldsOf(func(key string, _ reflect.StructField, _ []int) {
		seen[key] = true
		if _, known := fieldRules[key]; !known {
			t.Errorf("spec.%s: has no rule: honour it, say why it is harmless, or refuse it with a reason", key)
		}
	})
	for _, key := range slices.Sorted(maps.Keys(fieldRules)) {
		if !seen[key] {
			t.Errorf("spec.%s: has a rule, and the API has no such field", key)
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d fields: not all were seen", len(seen))
	}
}

// podWith is a pod in which only one field is set, and what leads to it.
func podWith(path []int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid"}}
	value := reflect.ValueOf(&pod.Spec).Elem()
	for i, index := range path {
		value = value.Field(index)
		if i == len(path)-1 {
			break
		}
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Slice {
			if value.Kind() == reflect.Pointer {
				value.Set(reflect.New(value.Type().Elem()))
				value = value.Elem()
			} else {
				value.Set(reflect.MakeSlice(value.Type(), 1, 1))
				value = value.Index(0)
			}
		}
	}
	filler := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1).MaxDepth(8)
	for value.IsZero() || reflect.Indirect(value).IsZero() {
		filler.Fill(value.Addr().Interface())
	}
	return pod
}

// refusedWithOthers are fields that are refused because of what others say.
var refusedWithOthers = []string{
	"containers.ports.hostPort", "initContainers.ports.hostPort", "volumes.emptyDir.sizeLimit", "volumes.projected",
}

// TestFieldsThatAreRefused sets each field in turn.
func TestFieldsThatAreRefused(t *testing.T) {
	fieldsOf(func(key string, field reflect.StructField, path []int) {
		r := fieldRules[key]
		if r.inside || slices.Contains(refusedWithOthers, key) {
			return
		}
		pod := podWith(path)
		if key == "hostUsers" {
			pod.Spec.HostUsers = ptr.To(false) // true is what pods without it have
		}
		err := checkFields(pod)
		name := jsonName(field)
		switch {
		case r.refuses == nil && err != nil:
			t.Errorf("spec.%s: is not to be refused: %v", key, err)
		case r.refuses != nil && (!errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), name+": "+r.why)):
			t.Errorf("spec.%s: got %v, want a refusal", key, err)
		case r.refuses != nil && r.why == "":
			t.Errorf("spec.%s: is refused without a reason", key)
		}
	})
}

// TestAnUnknownFieldIsRefused takes each rule away in turn.
func TestAnUnknownFieldIsRefused(t *testing.T) {
	all := maps.Clone(fieldRules)
	t.Cleanup(func() { fieldRules = all })
	fieldsOf(func(key string, field reflect.StructField, path []int) {
		if all[key].inside {
			return
		}
		fieldRules = maps.Clone(all)
		delete(fieldRules, key)
		err := checkFields(podWith(path))
		fieldRules = all
		if !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), jsonName(field)+": dray-agent does not know this field") {
			t.Errorf("spec.%s: got %v", key, err)
		}
	})
}

// TestDefaultsAreAccepted has what the API server sets, and what it lets a restricted pod say.
func TestDefaultsAreAccepted(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		DNSPolicy: corev1.DNSClusterFirst, RestartPolicy: corev1.RestartPolicyAlways, EnableServiceLinks: ptr.To(true), HostUsers: ptr.To(true),
		TerminationGracePeriodSeconds: ptr.To[int64](30), PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority), ServiceAccountName: "default",
		SecurityContext:       &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, RunAsNonRoot: ptr.To(true)},
		ShareProcessNamespace: ptr.To(false), SetHostnameAsFQDN: ptr.To(false), OS: &corev1.PodOS{Name: corev1.Linux},
		Volumes: []corev1.Volume{{Name: "kube-api-access-abcde", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: "main", Image: "x", ImagePullPolicy: corev1.PullAlways, TerminationMessagePath: corev1.TerminationMessagePathDefault,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			VolumeMounts:             []corev1.VolumeMount{{Name: "kube-api-access-abcde", ReadOnly: true, MountPath: serviceAccountPath}},
			Resources:                corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpu": {}}, Requests: corev1.ResourceList{"cpu": {}}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Privileged: ptr.To(false), ProcMount: ptr.To(corev1.DefaultProcMount),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
	if err := checkFields(pod); err != nil {
		t.Error(err)
	}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	if err := checkFields(pod); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), "hostPort: 80") {
		t.Errorf("got %v", err)
	}
	pod.Spec.HostNetwork = true
	if err := checkFields(pod); err != nil {
		t.Error(err)
	}
}

// TestVolumes has what is refused because of what other fields of a volume say.
func TestVolumes(t *testing.T) {
	size := resource.MustParse("1Mi")
	projected := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}}}
	for want, volume := range map[string]corev1.Volume{
		"":                   {Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}},
		"emptyDir.sizeLimit": {Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}},
		"projected":          {Name: "v", VolumeSource: corev1.VolumeSource{Projected: projected}},
		"emptyDir.medium":    {Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}}},
	} {
		err := checkFields(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume}}})
		if want == "" && err != nil || want != "" && (!errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), "spec.volumes[v]."+want+": ")) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	pod := shellPod()
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/tmp"}}
	if _, err := new(Provider).mountsOf(pod, &pod.Spec.Containers[0]); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), "the pod has no such volume") {
		t.Errorf("got %v", err)
	}
}

func shellPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
}
