// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// isTranslationValid validates the translation of a prototype object by the rules of v1, except for
// names: the prototype permits more of them. It returns whether the translation is used. Errors
// have the paths of fields in the prototype object.
func (r *reader) isTranslationValid(translated runtime.Object, from key, origin Origin) bool {
	use := true
	for _, invalid := range r.options.Validate(withNamesOfV1(translated)) {
		what := describe(strings.TrimSuffix(from.kind, "."+v1alpha1.GroupName), &metav1.ObjectMeta{Namespace: from.namespace, Name: from.name})
		use = r.object(origin, fmt.Errorf("%s: %w", what, r.asWritten(translated, from, invalid))) && use
	}
	return use
}

// asWritten converts an error about a field of a translation to one about the original field.
func (r *reader) asWritten(translated runtime.Object, from key, err error) error {
	var located *field.Error
	if !errors.As(err, &located) {
		return err
	}
	path := ""
	switch translated := translated.(type) {
	case *resourceapi.ResourceSlice:
		path = r.fieldOfPool(translated, from, located.Field)
	case *resourceapi.DeviceClass:
		path = rewrite(located.Field, fieldsOfClass)
	case *resourceapi.ResourceClaim:
		path = rewrite(located.Field, fieldsOfClaim)
	}
	if path == "" {
		return fmt.Errorf("in resource.k8s.io/v1: %w", err)
	}
	written := *located
	written.Field = path
	return &written
}

// rewriting maps the start of a field's path to the original one.
type rewriting struct {
	beginning *regexp.Regexp
	from      string
}

var (
	fieldsOfClass = []rewriting{
		{regexp.MustCompile(`^metadata\b`), "metadata"},
		{regexp.MustCompile(`^spec\.selectors\[\d+\](\.cel\.expression)?`), "spec.constraints"},
		{regexp.MustCompile(`^spec\.config\b(\[\d+\])?.*`), "spec.configs$1"},
	}
	fieldsOfClaim = []rewriting{
		{regexp.MustCompile(`^(metadata|status)\b`), "$1"},
		{regexp.MustCompile(`^spec\.devices\.requests\[(\d+)\]\.(?:exactly|firstAvailable(\[\d+\]))(?:\.|$)(.*)`), "spec.claims[$1]/$2/$3"},
		{regexp.MustCompile(`^spec\.devices\.requests\b`), "spec.claims"},
		{regexp.MustCompile(`^spec\.devices\.constraints\b.*`), "spec.matchAttributes"},
		{regexp.MustCompile(`^spec\.devices\.config\b.*`), "spec.claims"},
	}
	// fieldsOfRequest are relative to a request, and to the original of the request.
	fieldsOfRequest = []rewriting{
		{regexp.MustCompile(`^deviceClassName\b`), "deviceClass"},
		{regexp.MustCompile(`^selectors\[\d+\](\.cel\.expression)?`), "constraints"},
		{regexp.MustCompile(`^count\b`), "requests[" + v1alpha1.ResourceCount + "]"},
		{regexp.MustCompile(`^capacity\.requests\b`), "requests"},
	}
	ofDevice  = regexp.MustCompile(`^spec\.devices\[(\d+)\](?:\.(\w+)(?:\[([^\]]*)\])?)?`)
	inRequest = regexp.MustCompile(`^(spec\.claims\[\d+\])/(\[\d+\])?/(.*)$`)
)

// rewrite returns the original of a field's path, or an empty string.
func rewrite(path string, table []rewriting) string {
	for _, each := range table {
		if !each.beginning.MatchString(path) {
			continue
		}
		path = each.beginning.ReplaceAllString(path, each.from)
		parts := inRequest.FindStringSubmatch(path)
		if parts == nil {
			return path
		}
		request := parts[1]
		if parts[2] != "" {
			request += ".oneOf" + parts[2]
		}
		if below := rewrite(parts[3], fieldsOfRequest); below != "" {
			request += "." + below
		}
		return request
	}
	return ""
}

// fieldOfPool is rewrite for a slice, which has some of a pool's devices. Names of devices were not
// changed by translation.
func (r *reader) fieldOfPool(slice *resourceapi.ResourceSlice, from key, path string) string {
	switch {
	case path == "metadata.name", strings.HasPrefix(path, "spec.pool"):
		return "metadata.name"
	case path == "spec.driver", path == "spec.nodeName":
		return path
	case strings.HasPrefix(path, "spec.sharedCounters"):
		return "spec.resources"
	}
	pool, _ := r.objects.known[from].object.(*v1alpha1.DevicePool)
	parts := ofDevice.FindStringSubmatch(path)
	if parts == nil || pool == nil {
		return ""
	}
	position, err := strconv.Atoi(parts[1])
	if err != nil || position >= len(slice.Spec.Devices) {
		return ""
	}
	at := slices.IndexFunc(pool.Spec.Devices, func(d v1alpha1.Device) bool { return d.Name == slice.Spec.Devices[position].Name })
	if at < 0 {
		return ""
	}
	device, whole := &pool.Spec.Devices[at], fmt.Sprintf("spec.devices[%d]", at)
	attribute := func(list []v1alpha1.Attribute) int {
		return slices.IndexFunc(list, func(a v1alpha1.Attribute) bool { return a.Name == parts[3] })
	}
	resource := slices.IndexFunc(device.Resources, func(r v1alpha1.ResourceCapacity) bool { return r.Name == parts[3] })
	switch name := parts[2]; {
	case name == "consumesCounters":
		return whole + ".requests"
	case name != "attributes" && name != "capacity":
		return strings.TrimSuffix(whole+"."+name, ".")
	case name == "capacity" && resource >= 0:
		return fmt.Sprintf("%s.resources[%d]", whole, resource)
	case attribute(device.Attributes) >= 0:
		return fmt.Sprintf("%s.attributes[%d]", whole, attribute(device.Attributes))
	case attribute(pool.Spec.Attributes) >= 0:
		return fmt.Sprintf("spec.attributes[%d]", attribute(pool.Spec.Attributes))
	}
	return whole
}

// withNamesOfV1 returns a copy in which names of attributes and resources that are invalid in v1
// are replaced.
func withNamesOfV1(translated runtime.Object) runtime.Object {
	switch translated := translated.(type) {
	case *resourceapi.ResourceSlice:
		copied := translated.DeepCopy()
		for i := range copied.Spec.Devices {
			device := &copied.Spec.Devices[i]
			device.Attributes, device.Capacity = renamed(withoutAliases(device.Attributes)), renamed(withoutAliases(device.Capacity))
		}
		return copied
	case *resourceapi.ResourceClaim:
		copied := translated.DeepCopy()
		for i := range copied.Spec.Devices.Constraints {
			if match := copied.Spec.Devices.Constraints[i].MatchAttribute; match != nil && !isNameOfV1(string(*match)) {
				*match = "example.com/" + standIn
			}
		}
		for i := range copied.Spec.Devices.Requests {
			request := &copied.Spec.Devices.Requests[i]
			if request.Exactly != nil && request.Exactly.Capacity != nil {
				request.Exactly.Capacity.Requests = renamed(request.Exactly.Capacity.Requests)
			}
			for j := range request.FirstAvailable {
				if capacity := request.FirstAvailable[j].Capacity; capacity != nil {
					capacity.Requests = renamed(capacity.Requests)
				}
			}
		}
		return copied
	}
	return translated
}

// standIn is the prefix of replacement names.
const standIn = "name"

// nameOfV1 matches the part of a valid v1 name after its domain.
var nameOfV1 = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isNameOfV1(name string) bool {
	_, id, found := strings.Cut(name, "/")
	if !found {
		id = name
	}
	return len(id) <= resourceapi.DeviceMaxIDLength && nameOfV1.MatchString(id)
}

// withoutAliases removes the names that translation adds to compare devices of several drivers.
// They are not in the original, and do not count towards limits.
func withoutAliases[V any](values map[resourceapi.QualifiedName]V) map[resourceapi.QualifiedName]V {
	copied := maps.Clone(values)
	maps.DeleteFunc(copied, func(name resourceapi.QualifiedName, _ V) bool {
		own, isAlias := strings.CutPrefix(string(name), v1alpha1.GroupName+"/")
		_, found := values[resourceapi.QualifiedName(own)]
		return isAlias && found
	})
	return copied
}

// renamed replaces names that are invalid in v1 by unused ones.
func renamed[V any](values map[resourceapi.QualifiedName]V) map[resourceapi.QualifiedName]V {
	if values == nil {
		return nil
	}
	all := make(map[resourceapi.QualifiedName]V, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		to := name
		for n := len(all); !isNameOfV1(string(name)); n++ {
			to = resourceapi.QualifiedName(standIn + strconv.Itoa(n))
			_, known := values[to]
			if _, taken := all[to]; !known && !taken {
				break
			}
		}
		all[to] = values[name]
	}
	return all
}
