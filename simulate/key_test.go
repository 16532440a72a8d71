// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/fieldchange"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/reads"
)

// podValues are what fields of pods get: texts that mean something to the nodes of keyCluster among them.
var podValues = fieldchange.Values{
	Texts: func(path string) []string {
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
	},
	Keys: []string{"a", "cpu", "gpu.example.com/gpu"}, Quantities: []string{"0", "1", "2"},
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
	claims.Spec.InitContainers = []corev1.Container{{Name: "i", Ports: []corev1.ContainerPort{{ContainerPort: 1}}, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	extended.Spec.Containers[0].Resources.Requests["gpu.example.com/gpu"] = resource.MustParse("1")
	extended.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1}}
	extended.Spec.Tolerations = choosy.Spec.Tolerations
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

// pair are two pods that differ in a field.
type pair struct {
	name        string
	row         *reads.Row // nil if they differ in what no row of pods is about
	more        bool       // whether they differ in more, as with an element that is added
	base, other *corev1.Pod
}

var brackets = regexp.MustCompile(`\[[^]]*\]`)

func allPairs(names ...string) []pair {
	var pairs []pair
	for name, base := range keyPods() {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		for _, c := range fieldchange.Of(base, podValues) {
			path, _, _ := strings.Cut(brackets.ReplaceAllString(c.Name, "[]"), "=")
			row, _ := reads.Pod.Row(path) // none for metadata
			pairs = append(pairs, pair{name + " with " + c.Name, row, c.Row == nil, base, c.Apply(base, (*corev1.Pod).DeepCopy)})
		}
	}
	return pairs
}

// wrongAnswers asks about the pods of each pair one after the other, in either order, and lists those that get
// another answer than in a world of their own, or the first of them. Decisive are the pairs of which the answers differ.
func wrongAnswers(t *testing.T, fit NodeFit, pairs []pair, first bool) (wrong []string, decisive []pair) {
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
		if first && len(wrong) > 0 {
			break
		}
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
	RunUsual(t)
	check := func(name string, fit NodeFit, pairs []pair, least int) []pair {
		wrong, decisive := wrongAnswers(t, fit, pairs, false)
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

	for _, omission := range keys.Omissions(&podKey) {
		restore := omission.Omit()
		wrong, _ := wrongAnswers(t, NodeFit{}, decisive, true)
		if restore(); len(wrong) == 0 {
			t.Errorf("nothing is wrong without %v", omission.Covers)
		} else {
			t.Logf("without %s: %.100s", omission.Covers[0].Path, wrong[0])
		}
	}
	if wrong, _ := wrongAnswers(t, NodeFit{Fits: readsAll, Key: func(*corev1.Pod) string { return "" }}, all[:50], true); len(wrong) == 0 {
		t.Error("nothing is wrong if Key is the same for all pods")
	}
	decided := map[*reads.Row]bool{}
	for _, p := range decisive {
		if decided[p.row] = true; !p.more && p.row != nil && p.row.Role == reads.Ignore {
			t.Errorf("%s decides, by the table nobody reads it", p.name)
		}
	}
	for i := range reads.Pod.Rows {
		if row := &reads.Pod.Rows[i]; row.Role.Decides() && !decided[row] {
			t.Errorf("Pod: %s never decided an answer: the test sees too little, or nobody reads it", row.Path)
		}
	}
}

// The key of a kind of pods covers each row of the table that it has to, and no other.
func TestKeyOfPodsCoversTheTable(t *testing.T) {
	covered := map[keys.Row]bool{}
	for _, omission := range keys.Omissions(&podKey) {
		for _, row := range omission.Covers {
			covered[row] = true
		}
	}
	for _, row := range reads.Pod.Rows {
		at := keys.Row{Root: reads.Pod, Path: row.Path}
		if covered[at] != row.Role.Keyed() {
			t.Errorf("Pod: %s (%s) is covered: %v", row.Path, row.Role, covered[at])
		}
		delete(covered, at)
	}
	for row := range covered {
		t.Errorf("Pod: %s is covered and not in the table", row.Path)
	}
}
