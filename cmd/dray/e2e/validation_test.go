// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/validation"
)

// valid are objects that the API server takes, with all that Dray reads of them.
//
//go:embed testdata/valid.yaml
var valid string

// step is a key of an object, or an index of a list.
type step = any

// paths lists where something is in an object, from the given place on.
func paths(value any, at []step, found [][]step) [][]step {
	found = append(found, slices.Clone(at))
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			found = paths(value[key], append(at, key), found)
		}
	case []any:
		for i := range value {
			found = paths(value[i], append(at, i), found)
		}
	}
	return found
}

// put returns the value with something else at a place. change gets what is there and whether it stays.
func put(value any, at []step, change func(any) (any, bool)) any {
	if len(at) == 0 {
		changed, _ := change(value)
		return changed
	}
	last := len(at) == 1
	switch value := value.(type) {
	case map[string]any:
		key := at[0].(string)
		if last {
			if changed, stays := change(value[key]); stays {
				value[key] = changed
			} else {
				delete(value, key)
			}
			return value
		}
		value[key] = put(value[key], at[1:], change)
	case []any:
		i := at[0].(int)
		if last {
			if changed, stays := change(value[i]); stays {
				value[i] = changed
				return value
			}
			return slices.Delete(value, i, i+1)
		}
		value[i] = put(value[i], at[1:], change)
	}
	return value
}

var texts = []string{
	"", "a", "A", "a b", "a.b", "-a", "a-", "a/b", "a/b/c", "x.example.com/y", "X.example.com/y", "/", "1", "0", "-1", "1.5", "500m", "10Gi", "1e3", "ä", "a_b", "a.b/c.d", "a/b-c", "true", "device.driver == 1", "true || device", "pods", "uid-1", "FromClaim", "FromClass", "one", "two", "two/best", "two/none", "gpu-0", "gpu-1", "All", "ExactCount", "Exists", "Equal", "NoExecute", "NoSchedule", "None", "v1.2.3", "1.2.3-a+b", "01.2.3", "gpu.example.com/model", "gpu.example.com", "memory",
	strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 254), strings.Repeat("a.", 31) + "b", strings.Repeat("a", 64) + "/b", "x.example.com/" + strings.Repeat("a", 32), "x.example.com/" + strings.Repeat("a", 33),
}

var numbers = []int64{-1, 0, 1, 2, 3, 16, 17, 31, 32, 33, 64, 128, 129, 1 << 31, 1<<63 - 1}

// compared are the parts of objects that Dray validates, where that is not the whole specification.
var compared = map[string][][]step{
	"pod":       {{"spec", "resourceClaims"}, {"spec", "containers", 0, "resources"}},
	"allocated": {{"status"}},
}

// mutate changes an object in one random place, and says where and how.
func mutate(random *rand.Rand, object *unstructured.Unstructured) string {
	within := [][]step{{"spec"}}
	if parts, some := compared[object.GetName()]; some {
		within = parts
	}
	var all [][]step
	for _, path := range paths(object.Object, nil, nil) {
		if slices.ContainsFunc(within, func(part []step) bool { return len(path) > len(part) && slices.Equal(path[:len(part)], part) }) {
			all = append(all, path)
		}
	}
	at, what := all[random.IntN(len(all))], ""
	put(object.Object, at, func(value any) (any, bool) {
		if random.IntN(8) == 0 {
			what = "removed"
			return nil, false
		}
		switch value := value.(type) {
		case string:
			to := texts[random.IntN(len(texts))]
			what = fmt.Sprintf("%q", to)
			return to, true
		case int64, float64:
			to := numbers[random.IntN(len(numbers))]
			what = fmt.Sprint(to)
			return to, true
		case bool:
			what = fmt.Sprint(!value)
			return !value, true
		case []any:
			return mutateList(random, value, &what), true
		case map[string]any:
			return mutateMap(random, value, &what), true
		}
		what = "as it was"
		return value, true
	})
	return fmt.Sprint(at, " ", what)
}

func mutateList(random *rand.Rand, value []any, what *string) any {
	switch random.IntN(4) {
	case 0:
		*what = "emptied"
		return []any{}
	case 1:
		if len(value) > 0 {
			*what = "one twice"
			return append(value, runtime.DeepCopyJSONValue(value[random.IntN(len(value))]))
		}
	case 2:
		if len(value) > 0 {
			n := []int{5, 9, 17, 33, 65, 129, 130}[random.IntN(7)]
			*what = fmt.Sprint("grown to ", n)
			first := value[0]
			for i := len(value); i < n; i++ {
				next := runtime.DeepCopyJSONValue(first)
				switch one := next.(type) {
				case string:
					next = one + strconv.Itoa(i)
				case map[string]any:
					if name, ok := one["name"].(string); ok {
						one["name"] = name + strconv.Itoa(i)
					}
				}
				value = append(value, next)
			}
			return value
		}
	}
	*what = "reversed"
	slices.Reverse(value)
	return value
}

// beside are fields that exclude each other, or that other objects do not have.
var beside = map[string]any{
	"exactly": map[string]any{"deviceClassName": "gpu"}, "firstAvailable": []any{map[string]any{"name": "x", "deviceClassName": "gpu"}},
	"matchAttribute": "gpu.example.com/model", "distinctAttribute": "gpu.example.com/rank", "allNodes": true, "nodeName": "node-2", "bool": true, "int": int64(1), "string": "a",
	"count": int64(0), "allocationMode": "All", "perDeviceNodeSelection": true, "bindsToNode": true, "adminAccess": false, "validValues": []any{"1"}, "value": "3", "tolerationSeconds": int64(3),
	"sharedCounters": []any{map[string]any{"name": "x", "counters": map[string]any{"a": map[string]any{"value": "1"}}}}, "devices": []any{map[string]any{"name": "x"}},
	"default": "1", "max": "100Gi", "step": "3", "min": "0", "bools": []any{true, false}, "versions": []any{"1.0.0"},
	"resourceClaimName": "x", "resourceClaimTemplateName": "x", "cpu": "2", "example.com/gpu": "3",
	"bindingConditions": []any{"a", "b", "c", "d"}, "bindingFailureConditions": []any{"a", "b"}, "unknown": "x", "nodeSelector": map[string]any{"nodeSelectorTerms": []any{map[string]any{}}},
}

func mutateMap(random *rand.Rand, value map[string]any, what *string) any {
	keys := slices.Sorted(maps.Keys(value))
	if len(keys) > 0 && random.IntN(3) == 0 { // another name of a key
		from, to := keys[random.IntN(len(keys))], texts[random.IntN(len(texts))]
		if _, known := value[to]; !known {
			*what = fmt.Sprintf("%s is also %q", from, to)
			value[to] = runtime.DeepCopyJSONValue(value[from])
		}
		return value
	}
	if len(keys) > 0 && random.IntN(6) == 0 {
		n := []int{9, 17, 31, 32, 33, 34}[random.IntN(6)]
		*what = fmt.Sprint("grown to ", n)
		for i := len(value); i < n; i++ {
			value[fmt.Sprint("k", i)] = runtime.DeepCopyJSONValue(value[keys[0]])
		}
		return value
	}
	names := slices.Sorted(maps.Keys(beside))
	name := names[random.IntN(len(names))]
	*what = "with " + name
	value[name] = runtime.DeepCopyJSONValue(beside[name])
	return value
}

// judge says whether an object is taken, and else which fields are wrong, and what is said of it.
type judge func(*testing.T, *unstructured.Unstructured) (bool, []string, string)

// asAPIServer says whether the API server takes an object, and the fields that it does not.
func asAPIServer(t *testing.T, object *unstructured.Unstructured) (bool, []string, string) {
	t.Helper()
	dryRun := []string{metav1.DryRunAll}
	var err error
	if _, found := object.Object["status"]; found {
		_, err = in(t, object).UpdateStatus(t.Context(), object, metav1.UpdateOptions{FieldValidation: "Strict", DryRun: dryRun})
	} else {
		_, err = in(t, object).Create(t.Context(), object, metav1.CreateOptions{FieldValidation: "Strict", DryRun: dryRun})
	}
	if err == nil {
		return true, nil, ""
	}
	var fields []string
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			fields = append(fields, cause.Field)
		}
	}
	slices.Sort(fields)
	return false, slices.Compact(fields), err.Error()
}

// asDray is the same for Dray.
func asDray(t *testing.T, object *unstructured.Unstructured) (bool, []string, string) {
	t.Helper()
	content, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	checker := validation.New(validation.Programs{Cache: cel.NewCache(100)}, false)
	var fields []string
	_, err = input.Read([]string{"-"}, strings.NewReader(string(content)), input.Options{Validate: func(object runtime.Object) []error {
		problems := checker.Object(object)
		for _, problem := range problems {
			var at *field.Error
			if errors.As(problem, &at) {
				fields = append(fields, at.Field)
			}
		}
		return problems
	}})
	slices.Sort(fields)
	if err == nil {
		return true, nil, ""
	}
	return false, slices.Compact(fields), err.Error()
}

// namesTheSame reports whether a field of one list is that of another, or is part of it, or has it as a part. Amounts of a policy
// for requests have to agree with each other, so it is a matter of taste which of them is wrong. Dray shortens long names.
func namesTheSame(ours, theirs []string) bool {
	whole := func(name string) string {
		name, _, _ = strings.Cut(name, ".requestPolicy.")
		return name[:min(len(name), 100)]
	}
	return len(theirs) == 0 || slices.ContainsFunc(ours, func(our string) bool {
		return slices.ContainsFunc(theirs, func(their string) bool {
			return strings.HasPrefix(whole(our), whole(their)) || strings.HasPrefix(whole(their), whole(our))
		})
	})
}

// validObjects are valid, each as a document, with what they need to be compared.
func validObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(valid, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if kind := object.GetKind(); kind == "ResourceClaim" || kind == "ResourceClaimTemplate" || kind == "Pod" {
			object.SetNamespace("default")
		}
		if _, found := object.Object["status"]; found { // which is not part of what is created
			if _, err := in(t, object).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for who, judge := range map[string]judge{"the API server": asAPIServer, "Dray": asDray} {
			if taken, _, said := judge(t, object); !taken {
				t.Errorf("%s refuses %s: %s", who, object.GetName(), said)
			}
		}
		objects = append(objects, object)
	}
	return objects
}

// TestValidation compares what Dray takes with what the API server takes, and the fields that both refuse. DRAY_VALIDATION is how
// many objects are changed at random, each in one place.
func TestValidation(t *testing.T) {
	cases := 4000
	if text := os.Getenv("DRAY_VALIDATION"); text != "" {
		var err error
		if cases, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	objects, taken := validObjects(t), 0
	for seed := range cases {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		object := objects[random.IntN(len(objects))].DeepCopy()
		done := mutate(random, object)
		theirs, theirFields, theySay := asAPIServer(t, object)
		ours, ourFields, weSay := asDray(t, object)
		switch {
		case theirs && !ours:
			t.Errorf("case %d, %s with %s: only Dray refuses it: %s", seed, object.GetName(), done, weSay)
		case ours && !theirs:
			t.Errorf("case %d, %s with %s: only the API server refuses it: %s", seed, object.GetName(), done, theySay)
		case theirs:
			taken++
		case len(ourFields) > 0 && !namesTheSame(ourFields, theirFields):
			t.Errorf("case %d, %s with %s: Dray names %q, the API server %q", seed, object.GetName(), done, ourFields, theirFields)
		}
	}
	if taken < cases/5 || taken > cases/2 {
		t.Errorf("%d of %d objects are taken: the changes are of one kind only", taken, cases)
	}
}
