// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/devmgmt/translate"
)

const convertLong = `Translate objects of devmgmtproto.k8s.io/v1alpha1 (DevicePool, DeviceClass,
DeviceClaim) to resource.k8s.io/v1 (ResourceSlice, DeviceClass, ResourceClaim), or
objects of resource.k8s.io/v1 to devmgmtproto.k8s.io/v1alpha1.

A translation means the same: the same claims get the same devices. What the other
API cannot say is listed on standard error, field by field, and nothing is printed
unless --lossy is used. Then it is left out, and listed.

Claims are translated together with their classes and pools, and configuration
together with the objects that it refers to: give all of them with -f. Other objects
are passed over.

Exit status:
  0  everything is translated, as far as --lossy asks for
  1  something has no translation
  2  wrong usage, or wrong input`

const convertExample = `  # What v1 makes of a pool, a class and a claim of the prototype
  dray convert -f examples/devmgmt-partitions

  # And back
  dray convert -f examples/devmgmt-partitions | dray convert -f -

  # Leave out what v1 cannot say
  dray convert -f prototype.yaml --lossy -o json`

// maxRefused is the maximum number of fields without a translation that are listed.
const maxRefused = 100

// errRefused ends a command that has listed what has no translation.
var errRefused = errors.New("not everything has a translation: --lossy leaves it out")

type convertFlags struct {
	origin *origin
	output *output
	lossy  bool
}

func newConvert(o *origin) *cobra.Command {
	flags := &convertFlags{origin: o, output: &output{}}
	command := &cobra.Command{
		Use:     "convert",
		Short:   "Translate between devmgmtproto.k8s.io/v1alpha1 and resource.k8s.io/v1",
		Long:    convertLong,
		Example: convertExample,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return flags.output.parse() },
		RunE:    func(command *cobra.Command, _ []string) error { return flags.run(command.Context()) },
	}
	command.Flags().BoolVar(&flags.lossy, "lossy", false, "leave out what the other API cannot say")
	flags.output.addTo(command)
	return command
}

func (f *convertFlags) run(ctx context.Context) error {
	f.origin.untranslated = true
	options, err := f.origin.options()
	if err != nil {
		return err
	}
	objects, err := f.origin.read(ctx, options)
	if err != nil {
		return err
	}
	f.origin.describe(objects)
	translated, reasons, err := convert(objects)
	if err != nil {
		return err
	}
	verb := "no translation"
	if f.lossy {
		verb = "left out"
	}
	for _, reason := range reasons[:min(len(reasons), maxRefused)] {
		f.origin.streams.note("%s: %s", verb, reason)
	}
	if len(reasons) > maxRefused {
		f.origin.streams.note("%s: %d more fields, of %s", verb, len(reasons)-maxRefused, objectsOf(reasons[maxRefused:]))
	}
	if len(reasons) > 0 && !f.lossy {
		return errRefused
	}
	return f.print(translated)
}

// convert translates objects of v1 to the prototype API, and objects of the prototype API to v1.
func convert(objects *input.Objects) (translated []runtime.Object, reasons []error, err error) {
	prototype := &objects.Prototype
	isPrototype := len(prototype.Pools)+len(prototype.Classes)+len(prototype.Claims) > 0
	isV1 := len(objects.Slices)+len(objects.Classes)+len(objects.Claims)+len(objects.Templates)+len(objects.TaintRules) > 0
	var lost []translate.Reason
	switch {
	case isPrototype && isV1:
		return nil, nil, errors.New("objects of both APIs are there: convert those of one at a time")
	case isPrototype:
		var v1 translate.V1
		v1, lost = translate.ToV1(*prototype)
		translated = append(translated, asObjects(v1.Slices)...)
		translated = append(translated, asObjects(v1.Classes)...)
		translated = append(translated, asObjects(v1.Claims)...)
	case isV1:
		var found translate.Prototype
		found, lost = translate.FromV1(translate.V1{Slices: objects.Slices, Classes: objects.Classes, Claims: objects.Claims})
		translated = append(translated, asObjects(found.Pools)...)
		translated = append(translated, asObjects(found.Classes)...)
		translated = append(translated, asObjects(found.Claims)...)
		translated = append(translated, asObjects(found.Referents)...)
		reasons = append(reasons, withoutCounterpart("ResourceClaimTemplate", objects.Templates)...)
		reasons = append(reasons, withoutCounterpart("DeviceTaintRule", objects.TaintRules)...)
	default:
		return nil, nil, errors.New("no objects of devmgmtproto.k8s.io or resource.k8s.io")
	}
	for _, reason := range lost {
		reasons = append(reasons, reason)
	}
	return translated, reasons, nil
}

// objectsOf returns the names of the objects that reasons are about.
func objectsOf(reasons []error) string {
	var names []string
	for _, reason := range reasons {
		var lost translate.Reason
		if !errors.As(reason, &lost) {
			continue
		}
		name := lost.Kind + " " + lost.Name
		if lost.Namespace != "" {
			name = lost.Kind + " " + lost.Namespace + "/" + lost.Name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) > maxReported {
			return strings.Join(names[:maxReported], ", ") + " and others"
		}
	}
	return strings.Join(names, ", ")
}

func asObjects[T runtime.Object](list []T) []runtime.Object {
	objects := make([]runtime.Object, len(list))
	for i, object := range list {
		objects[i] = object
	}
	return objects
}

// withoutCounterpart returns a reason for each object of a kind that the prototype API lacks.
func withoutCounterpart[T metav1.Object](kind string, list []T) []error {
	reasons := make([]error, len(list))
	for i, object := range list {
		reasons[i] = translate.Reason{
			Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Field: "kind", Text: "the prototype has no such kind",
		}
	}
	return reasons
}

// objectList is a v1 List, as kubectl writes it.
type objectList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []runtime.Object `json:"items"`
}

// print writes YAML documents, or one list if the output format requires a single document.
func (f *convertFlags) print(translated []runtime.Object) error {
	out := f.origin.streams.Out
	if f.output.format.ForPeople() || f.output.format.IsYAML() {
		for i, object := range translated {
			if i > 0 {
				fmt.Fprintln(out, "---")
			}
			encoded, err := render.YAML(object)
			if err != nil {
				return err
			}
			fmt.Fprint(out, encoded)
		}
		return nil
	}
	document := render.Document{Value: objectList{
		TypeMeta: metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "List"}, Items: translated,
	}}
	for _, object := range translated {
		document.Items = append(document.Items, object)
		gvk := object.GetObjectKind().GroupVersionKind()
		document.Names = append(document.Names, fmt.Sprintf("%s/%s", gvk.GroupKind(), object.(metav1.Object).GetName()))
	}
	return f.output.format.Write(out, document, !f.output.noHeaders)
}
