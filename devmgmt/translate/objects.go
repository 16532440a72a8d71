// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Prototype has objects of devmgmtproto.k8s.io/v1alpha1, and objects of any kind with configuration
// for them.
type Prototype struct {
	Pools     []*v1alpha1.DevicePool
	Classes   []*v1alpha1.DeviceClass
	Claims    []*v1alpha1.DeviceClaim
	Referents []*unstructured.Unstructured
}

// V1 has objects of resource.k8s.io/v1.
type V1 struct {
	Slices  []*resourceapi.ResourceSlice
	Classes []*resourceapi.DeviceClass
	Claims  []*resourceapi.ResourceClaim
}

// Reason names a field that the other API cannot express.
type Reason struct { //nolint:errname // it is a reason first, listed with others
	Kind, Namespace, Name string
	// Field is the path of the field, such as spec.devices[0].name.
	Field string
	// Text says why it cannot be translated.
	Text string
	// Whole says that the object has no translation because of the field.
	Whole bool
	// Report says that the field only reports a state, without influence on allocation.
	Report bool
}

// Error returns "Kind namespace/name: field: text".
func (r Reason) Error() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s: %s: %s", r.Kind, name, r.Field, r.Text)
}

// losses collects the reasons of one object.
type losses struct {
	object Reason
	list   []Reason
	known  map[Reason]int // index in list, by the reason as it was added
}

func lossesOf(kind string, object metav1.Object) *losses {
	return &losses{object: Reason{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// add adds a reason, or returns an existing equal one: a detail that is translated several times
// fails in the same way.
func (l *losses) add(path *field.Path, format string, arguments []any) *Reason {
	reason := l.object
	reason.Field, reason.Text = shorten(path.String()), shorten(fmt.Sprintf(format, arguments...))
	at, known := l.known[reason]
	if !known {
		if l.known == nil {
			l.known = make(map[Reason]int)
		}
		at = len(l.list)
		l.known[reason] = at
		l.list = append(l.list, reason)
	}
	return &l.list[at]
}

// drop adds a reason for a field that the translation omits.
func (l *losses) drop(path *field.Path, format string, arguments ...any) {
	_ = l.add(path, format, arguments)
}

// whole adds a reason for a field because of which the object is omitted.
func (l *losses) whole(path *field.Path, format string, arguments ...any) {
	l.add(path, format, arguments).Whole = true
}

// report adds a reason for an omitted field that has no influence on allocation.
func (l *losses) report(path *field.Path, text string) {
	l.add(path, "%s", []any{text}).Report = true
}

// fatal reports whether the object is omitted.
func (l *losses) fatal() bool {
	return slices.ContainsFunc(l.list, func(r Reason) bool { return r.Whole })
}

var (
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
	metadataPath = field.NewPath("metadata")
)

// Annotations of a DeviceClass of v1 with fields that v1 lacks.
const (
	// DeviceTypeAnnotation is the device type of a class.
	DeviceTypeAnnotation = v1alpha1.GroupName + "/device-type"
	// AdminAccessAnnotation is "true" on a class whose claims have admin access. In v1, requests of
	// claims have that field.
	AdminAccessAnnotation = v1alpha1.GroupName + "/admin-access"
)

// metadata returns the metadata that users write, without fields that a server sets.
func metadata(of metav1.ObjectMeta, without ...string) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Name: of.Name, Namespace: of.Namespace, Labels: of.Labels,
		OwnerReferences: of.OwnerReferences, Finalizers: of.Finalizers,
	}
	for name, value := range of.Annotations {
		if !slices.Contains(without, name) {
			setAnnotation(&kept, name, value)
		}
	}
	return kept
}

func setAnnotation(meta *metav1.ObjectMeta, name, value string) {
	if meta.Annotations == nil {
		meta.Annotations = make(map[string]string)
	}
	meta.Annotations[name] = value
}

// typeMeta returns kind and apiVersion of a kind of v1.
func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: kind}
}

// prototypeMeta returns kind and apiVersion of a kind of the prototype.
func prototypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.DevMgmtAPIVersion, Kind: kind}
}

// shorten shortens very long names and values in messages.
func shorten(text string) string {
	const limit = 400
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:limit], ""), len(text))
}

// oneLine returns the message of joined errors as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
