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

// Prototype holds objects of devmgmtproto.k8s.io/v1alpha1, and objects of any kind that these
// refer to for configuration.
type Prototype struct {
	Pools     []*v1alpha1.DevicePool
	Classes   []*v1alpha1.DeviceClass
	Claims    []*v1alpha1.DeviceClaim
	Referents []*unstructured.Unstructured
}

// V1 holds objects of resource.k8s.io/v1.
type V1 struct {
	Slices  []*resourceapi.ResourceSlice
	Classes []*resourceapi.DeviceClass
	Claims  []*resourceapi.ResourceClaim
}

// Reason says what of an object the other API cannot say.
type Reason struct { //nolint:errname // it is a reason first, listed with others
	Kind, Namespace, Name string
	// Field is the path of the field, as in spec.devices[0].name.
	Field string
	// Text says why not.
	Text string
	// Whole is set if the object has no translation at all without the field.
	Whole bool
	// Report is set if the field only reports something: it has no influence on allocation.
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
	known  map[Reason]int // positions in list of reasons as they were added
}

func lossesOf(kind string, object metav1.Object) *losses {
	return &losses{object: Reason{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// add adds a reason, or finds it: details that are translated several times fail in the same way.
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

// drop says that the field is left out of the translation.
func (l *losses) drop(path *field.Path, format string, arguments ...any) {
	_ = l.add(path, format, arguments)
}

// whole says that the object is left out because of the field.
func (l *losses) whole(path *field.Path, format string, arguments ...any) {
	l.add(path, format, arguments).Whole = true
}

// report says that the field is left out, which has no influence on allocation.
func (l *losses) report(path *field.Path, text string) {
	l.add(path, "%s", []any{text}).Report = true
}

// fatal reports whether the object is left out.
func (l *losses) fatal() bool {
	return slices.ContainsFunc(l.list, func(r Reason) bool { return r.Whole })
}

var (
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
	metadataPath = field.NewPath("metadata")
)

// Annotations keep what a DeviceClass of v1 has no field for and does not need by itself.
const (
	// DeviceTypeAnnotation is the device type of a class.
	DeviceTypeAnnotation = v1alpha1.GroupName + "/device-type"
	// AdminAccessAnnotation is "true" on a class whose claims have admin access. In v1 the
	// claims say so themselves.
	AdminAccessAnnotation = v1alpha1.GroupName + "/admin-access"
)

// metadata returns what people write in the metadata of an object. What a server adds is its own
// to set.
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

// typeMeta names a kind of v1.
func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: kind}
}

// prototypeMeta names a kind of the prototype.
func prototypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.DevMgmtAPIVersion, Kind: kind}
}

// shorten keeps what people read short when a name or a value in it is absurdly long.
func shorten(text string) string {
	const limit = 400
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:limit], ""), len(text))
}

// oneLine makes several errors one text.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
