// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
)

// change is a field of a pod with another value.
type change struct {
	path  string
	apply func(pod *corev1.Pod)
}

// changes lists each field of a pod, down to single values, with other values: texts that mean something to the
// nodes of keyCluster among them. Lists get one element more, and elements that are there are changed.
func changes(base *corev1.Pod) []change {
	w := &walker{}
	w.walk(reflect.ValueOf(base).Elem(), "pod", 0, func(pod *corev1.Pod) reflect.Value { return reflect.ValueOf(pod).Elem() })
	return w.found
}

// reach finds the same value in another pod, and makes what leads to it.
type reach func(pod *corev1.Pod) reflect.Value

type walker struct{ found []change }

// deepest is how many pointers, lists and maps lead to a value.
const deepest = 8

func (w *walker) walk(at reflect.Value, path string, depth int, reached reach) {
	switch at.Interface().(type) {
	case resource.Quantity:
		for _, value := range []string{"0", "1", "2"} {
			w.set(path, resource.MustParse(value), reached)
		}
		return
	case metav1.Time:
		w.set(path, metav1.Unix(1, 0), reached)
		return
	}
	switch at.Kind() {
	case reflect.Struct:
		for i := range at.NumField() {
			if field := at.Type().Field(i); field.IsExported() {
				w.walk(at.Field(i), path+"."+field.Name, depth, func(pod *corev1.Pod) reflect.Value { return reached(pod).Field(i) })
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if depth <= deepest {
			w.into(at, path, depth+1, reached)
		}
	case reflect.String:
		for _, value := range textsFor(path) {
			if at.String() != value {
				w.set(path, value, reached)
			}
		}
	case reflect.Bool:
		w.set(path, !at.Bool(), reached)
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.set(path, at.Int()+1, reached)
	case reflect.Uint8:
		w.set(path, uint8(at.Uint()+1), reached)
	}
}

func (w *walker) set(path string, value any, reached reach) {
	w.found = append(w.found, change{fmt.Sprintf("%s=%v", path, value), func(pod *corev1.Pod) {
		to := reached(pod)
		to.Set(reflect.ValueOf(value).Convert(to.Type()))
	}})
}

// into walks what a pointer, a list or a map leads to.
func (w *walker) into(at reflect.Value, path string, depth int, reached reach) {
	switch at.Kind() {
	case reflect.Pointer:
		filled := at
		if at.IsNil() {
			filled = reflect.New(at.Type().Elem())
		}
		w.walk(filled.Elem(), path, depth, func(pod *corev1.Pod) reflect.Value {
			p := reached(pod)
			if p.IsNil() {
				p.Set(reflect.New(p.Type().Elem()))
			}
			return p.Elem()
		})
	case reflect.Slice:
		for i := range at.Len() {
			w.walk(at.Index(i), fmt.Sprint(path, "[", i, "]"), depth, func(pod *corev1.Pod) reflect.Value { return reached(pod).Index(i) })
		}
		w.walk(reflect.New(at.Type().Elem()).Elem(), path+"[+]", depth, func(pod *corev1.Pod) reflect.Value {
			list := reached(pod)
			if list.Len() == at.Len() {
				list.Set(reflect.Append(list, reflect.New(list.Type().Elem()).Elem()))
			}
			return list.Index(at.Len())
		})
	case reflect.Map:
		for _, key := range []string{"a", "cpu", "gpu.example.com/gpu"} {
			w.walk(reflect.New(at.Type().Elem()).Elem(), path+"["+key+"]", depth, func(pod *corev1.Pod) reflect.Value {
				m := reached(pod)
				if m.IsNil() {
					m.Set(reflect.MakeMap(m.Type()))
				}
				value := reflect.New(m.Type().Elem()).Elem()
				late = append(late, func() { m.SetMapIndex(reflect.ValueOf(key).Convert(m.Type().Key()), value) })
				return value
			})
		}
	}
}

// textsFor are values that may mean something in a field.
func textsFor(path string) []string {
	switch field := path[strings.LastIndex(path, ".")+1:]; {
	case strings.HasSuffix(field, "Operator"):
		return []string{"In", "Exists", ""}
	case strings.HasSuffix(field, "Effect"):
		return []string{"NoSchedule", "NoExecute", ""}
	case strings.Contains(field, "Claim"):
		return []string{"one", "a", ""}
	case strings.HasSuffix(field, "RestartPolicy"):
		return []string{"Always"}
	}
	return []string{"a", ""}
}

// late is what is done once a change is made: a value of a map cannot be changed in place, so it is put there.
var late []func()

func (c change) of(base *corev1.Pod) *corev1.Pod {
	pod := base.DeepCopy()
	late = nil
	c.apply(pod)
	for _, do := range slices.Backward(late) {
		do()
	}
	return pod
}

// keyCluster has nodes of which labels, taints, resources and devices decide.
func keyCluster() Cluster {
	class := &resourceapi.DeviceClass{}
	class.Name, class.Spec.ExtendedResourceName = "gpu", ptr.To("gpu.example.com/gpu")
	c := Cluster{Classes: []*resourceapi.DeviceClass{class}}
	for i, name := range []string{"plain", "labelled", "tainted", "large"} {
		node, slice := &corev1.Node{}, &resourceapi.ResourceSlice{}
		node.Name, slice.Name = name, name
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(strconv.Itoa(1 + 3*(i/3))), "pods": resource.MustParse("9")}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: ptr.To(name), Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}
		for d := range i {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", d)})
		}
		c.Nodes, c.Slices = append(c.Nodes, node), append(c.Slices, slice)
	}
	c.Nodes[1].Labels = map[string]string{"a": "a"}
	c.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "a", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
	for _, namespace := range []string{"", "a", "b", "default"} {
		for name, count := range map[string]int64{"one": 1, "a": 2, "b": 1} {
			template, claim := &resourceapi.ResourceClaimTemplate{}, &resourceapi.ResourceClaim{}
			template.Namespace, template.Name, claim.Namespace, claim.Name = namespace, name, namespace, name
			template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count + int64(len(namespace)%3),
			}}}
			claim.Spec = template.Spec.Spec
			c.Templates, c.Claims = append(c.Templates, template), append(c.Claims, claim)
		}
	}
	return c
}

func keyPods() map[string]*corev1.Pod {
	plain := func() *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "default", "p", "p"
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
		return pod
	}
	choosy, claims, extended := plain(), plain(), plain()
	choosy.Spec.NodeSelector = map[string]string{"a": "a"}
	choosy.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpEqual, Value: "a"}}
	choosy.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"a"}}}}},
	}}}
	claims.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("one")}, {Name: "y", ResourceClaimName: ptr.To("one")}}
	extended.Spec.Containers[0].Resources.Requests["gpu.example.com/gpu"] = resource.MustParse("1")
	return map[string]*corev1.Pod{"plain": plain(), "choosy": choosy, "claims": claims, "extended": extended}
}

// keyAnswers is on which nodes a pod fits, and how often, or what is wrong with it.
func keyAnswers(t *testing.T, state *State, pod *corev1.Pod) string {
	shapes, err := state.Shapes([]*corev1.Pod{pod})
	if err != nil {
		return err.Error()
	}
	answer := fmt.Append(nil, shapes[0].NotLookedAt())
	for _, node := range state.world.nodes {
		fit, err := state.FitsMany(t.Context(), shapes[0], Real(func(n *corev1.Node) bool { return n == node.Node }))
		if err != nil {
			t.Fatal(err)
		}
		answer = strconv.AppendInt(append(answer, ' '), int64(fit.Pods), 10)
	}
	result, err := state.Sim().Place(t.Context(), pod, Real(nil), FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	for placement := range result.Placements() {
		claims, err := placement.Claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims {
			answer = fmt.Appendf(answer, " %s %v", claim.Spec.String(), claim.Status.Allocation)
		}
	}
	return string(answer)
}

// pairs are two pods that differ in a field each.
type pair struct {
	name        string
	base, other *corev1.Pod
}

func allPairs(names ...string) []pair {
	var pairs []pair
	for name, base := range keyPods() {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		for _, c := range changes(base) {
			pairs = append(pairs, pair{name + " with " + c.path, base, c.of(base)})
		}
	}
	return pairs
}

// wrongAnswers asks about the pods of each pair one after the other, in either order, and lists those that get
// another answer than in a world of their own. Decisive are the pairs of which the answers differ.
func wrongAnswers(t *testing.T, fit NodeFit, pairs []pair) (wrong []string, decisive []pair) {
	t.Helper()
	cluster := keyCluster()
	fresh := func() *State {
		state, err := Open(cluster, Options{Features: allocator.AllFeatures(), NodeFit: fit})
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	wants := map[*corev1.Pod]string{}
	for _, p := range pairs {
		want, known := wants[p.base]
		if !known {
			want = keyAnswers(t, fresh(), p.base)
			wants[p.base] = want
		}
		state := fresh()
		wantOther := keyAnswers(t, state, p.other)
		if afterwards := keyAnswers(t, state, p.base); afterwards != want {
			wrong = append(wrong, fmt.Sprintf("after %s: %q, want %q", p.name, afterwards, want))
		}
		state = fresh()
		keyAnswers(t, state, p.base)
		if afterwards := keyAnswers(t, state, p.other); afterwards != wantOther {
			wrong = append(wrong, fmt.Sprintf("%s: %q, want %q", p.name, afterwards, wantOther))
		}
		if wantOther != want {
			decisive = append(decisive, p)
		}
	}
	return wrong, decisive
}

// readsAll is a rule that reads all that it may of a pod.
func readsAll(pod *corev1.Pod, node *corev1.Node) (bool, error) {
	if node.Name == "" {
		return true, nil
	}
	hash := fnv.New32a()
	hash.Write([]byte(node.Name + wholePod(pod)))
	return hash.Sum32()%2 == 0, nil
}

// A pod gets the answers that it would get if nobody had asked about another one before, whichever field tells the
// two apart, and whatever the rule about nodes reads. The test sees each part of the key that is left out, and a
// rule that does not say what it reads.
func TestEachFieldOfAPod(t *testing.T) {
	check := func(name string, fit NodeFit, pairs []pair, least int) []pair {
		wrong, decisive := wrongAnswers(t, fit, pairs)
		if len(wrong) > 0 {
			t.Errorf("%s: %d wrong answers, the first one: %s", name, len(wrong), wrong[0])
		}
		if t.Logf("%s: %d of %d changes decide", name, len(decisive), len(pairs)); len(decisive) < least {
			t.Errorf("%s: %d changes decide an answer: the test sees too little", name, len(decisive))
		}
		return decisive
	}
	teams := func(pod *corev1.Pod, node *corev1.Node) (bool, error) {
		return pod.Labels["a"] == node.Labels["a"], nil
	}
	decisive := check("default", NodeFit{}, allPairs(), 100)
	check("with key", NodeFit{Fits: teams, Key: func(pod *corev1.Pod) string { return pod.Labels["a"] }}, allPairs("plain"), 10)
	all := check("without key", NodeFit{Fits: readsAll}, allPairs("plain"), 500)

	saved := keyParts
	defer func() { keyParts = saved }()
	for i, part := range saved {
		keyParts = slices.Delete(slices.Clone(saved), i, i+1)
		if wrong, _ := wrongAnswers(t, NodeFit{}, decisive); len(wrong) == 0 {
			t.Errorf("nothing is wrong without %s", part.of)
		} else {
			t.Logf("without %s: %d wrong", part.of, len(wrong))
		}
	}
	keyParts = saved
	if wrong, _ := wrongAnswers(t, NodeFit{Fits: readsAll, Key: func(*corev1.Pod) string { return "" }}, all[:50]); len(wrong) == 0 {
		t.Error("nothing is wrong if Key is the same for all pods")
	}
}
