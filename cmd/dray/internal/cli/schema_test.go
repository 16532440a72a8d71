// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

const rootFolder = "../../../.."

var (
	schemaFile  = filepath.Join(rootFolder, "docs/outputs.schema.json")
	outputsPage = filepath.Join(rootFolder, "docs/outputs.md")
)

// kind is a document that a command prints with -o json and -o yaml.
type kind struct {
	name, command string
	document      reflect.Type
	more          map[string]*jsonschema.Schema // fields beside those of a simulation
}

// list is what a simulation prints.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	Items           []T `json:"items"`
	// NotLookedAt names pods and what of them was not looked at.
	NotLookedAt []notLookedAt `json:"notLookedAt,omitempty"`
}

// mixDocument is what simulate plan --prices prints.
type mixDocument struct {
	metav1.TypeMeta `json:",inline"`
	Items           []mixAnswer `json:"items"`
	mixPlan         `json:",inline"`
	// NotLookedAt names pods and what of them was not looked at.
	NotLookedAt []notLookedAt `json:"notLookedAt,omitempty"`
}

// repackDocument is what simulate repack prints.
type repackDocument struct {
	metav1.TypeMeta `json:",inline"`
	// Items are the steps, in order.
	Items []stepAnswer `json:"items"`
	// Possible says that there is a way. Exact says that it is proven that none is better, or that there is none.
	Possible bool `json:"possible"`
	Exact    bool `json:"exact"`
	// Cost is what the moves cost. Bound is what every way costs at least; it is absent if there is none.
	Cost  float64  `json:"cost"`
	Bound *float64 `json:"bound,omitempty"`
	// Room is how many pods have no place between steps, at most.
	Room int `json:"room"`
	// Places are those of the pods that are to fit, with --for.
	Places []drainAnswer `json:"places,omitempty"`
	// Goal and Free are there with --goal.
	Goal string      `json:"goal,omitempty"`
	Free *freeAnswer `json:"free,omitempty"`
	// NotLookedAt names pods and what of them was not looked at.
	NotLookedAt []notLookedAt `json:"notLookedAt,omitempty"`
}

func simulated[T any](name, command string) kind {
	return kind{name: name, command: command, document: reflect.TypeFor[list[T]]()}
}

func kinds() []kind {
	victims := simulated[victimsAnswer]("SimulatedVictimsList", "simulate victims")
	victims.more = map[string]*jsonschema.Schema{
		"placedBefore":   {Type: "integer", Description: "how many workloads that come before it were placed first."},
		"undecidedNodes": {Type: "integer", Description: "the number of nodes that are not among the items, but may have victims."},
	}
	return []kind{
		{name: "DeviceInventory", command: "devices", document: reflect.TypeOf(render.InventoryDocument(nil).Value)},
		{name: "DeviceUsage", command: "usage", document: reflect.TypeOf(render.UsageDocument(&usage.Report{}).Value)},
		{name: "Explanation", command: "explain, of one", document: reflect.TypeFor[render.Answer]()},
		{name: "ExplanationList", command: "explain, of several", document: reflect.TypeOf(render.AnswersDocument(nil, false).Value)},
		simulated[anyAnswer]("SimulatedAnyPlanList", "simulate plan --any"),
		simulated[drainAnswer]("SimulatedDrain", "simulate drain"),
		simulated[fitsAnswer]("SimulatedFitList", "simulate fits"),
		simulated[gangAnswer]("SimulatedGangList", "simulate gang"),
		{name: "SimulatedMix", command: "simulate plan --prices", document: reflect.TypeFor[mixDocument]()},
		simulated[planAnswer]("SimulatedPlanList", "simulate plan"),
		{name: "SimulatedRepack", command: "simulate repack", document: reflect.TypeFor[repackDocument]()},
		simulated[whenAnswer]("SimulatedStartList", "simulate when"),
		victims,
		simulated[whatIfAnswer]("SimulatedWhatIfList", "simulate what-if"),
		{name: "Version", command: "version", document: reflect.TypeFor[versions]()},
	}
}

// ofKubernetes are types whose schema Kubernetes has, or whose schema is a definition.
var ofKubernetes = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[resource.Quantity]():           {Type: "string", Description: "a quantity of Kubernetes, such as 40Gi"},
	reflect.TypeFor[resourceapi.ResourceClaim]():   {Type: "object", Description: "a ResourceClaim of resource.k8s.io/v1"},
	reflect.TypeFor[resourceapi.DeviceAttribute](): {Type: "object", Description: "a DeviceAttribute of resource.k8s.io/v1"},
	reflect.TypeFor[resourceapi.DeviceTaint]():     {Type: "object", Description: "a DeviceTaint of resource.k8s.io/v1"},
	// A cause has others in it.
	reflect.TypeFor[[]render.Cause](): {Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/Cause"}},
}

// causeSchema is that of a cause.
func causeSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.ForType(reflect.TypeFor[render.Cause](), &jsonschema.ForOptions{TypeSchemas: ofKubernetes})
	if err != nil {
		t.Fatal(err)
	}
	comments(t, reflect.TypeFor[render.Cause](), s)
	return s
}

// schemaOf is the schema of a document. Strict, it permits the fields only that there are now.
func schemaOf(t *testing.T, k kind, strict bool) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.ForType(k.document, &jsonschema.ForOptions{TypeSchemas: ofKubernetes})
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	comments(t, k.document, s)
	for name, field := range k.more {
		s.Properties[name] = field
		s.Required = append(s.Required, name)
	}
	var apiVersion, name any = render.APIVersion, k.name
	s.Properties["apiVersion"] = &jsonschema.Schema{Const: &apiVersion}
	s.Properties["kind"] = &jsonschema.Schema{Const: &name}
	s.Required = append(s.Required, "apiVersion", "kind")
	slices.Sort(s.Required)
	if strict {
		s.Defs = map[string]*jsonschema.Schema{"Cause": causeSchema(t)}
	} else {
		relax(s)
	}
	return s
}

// relax permits the fields of later versions.
func relax(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Properties != nil {
		s.AdditionalProperties = nil
	}
	for _, property := range s.Properties {
		relax(property)
	}
	relax(s.Items)
	relax(s.AdditionalProperties)
}

// comments puts the documentation of fields into a schema.
func comments(t *testing.T, typed reflect.Type, s *jsonschema.Schema) {
	t.Helper()
	for typed.Kind() == reflect.Pointer || typed.Kind() == reflect.Slice || typed.Kind() == reflect.Map {
		if typed.Kind() != reflect.Pointer {
			if s = elements(s, typed); s == nil {
				return
			}
		}
		typed = typed.Elem()
	}
	if typed.Kind() != reflect.Struct || ofKubernetes[typed] != nil || s.Ref != "" {
		return
	}
	texts := documentation(t, typed)
	for _, field := range reflect.VisibleFields(typed) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.Properties[name]
		if property == nil || field.Anonymous {
			continue
		}
		if text := texts[field.Name]; text != "" && property.Description == "" {
			// The field has another name in JSON.
			text = strings.TrimPrefix(strings.TrimPrefix(text, field.Name+" is "), field.Name+" are ")
			property.Description = text
		}
		comments(t, field.Type, property)
	}
}

func elements(s *jsonschema.Schema, typed reflect.Type) *jsonschema.Schema {
	if typed.Kind() == reflect.Map {
		return s.AdditionalProperties
	}
	return s.Items
}

// documentation is that of the fields of a struct and of those that it embeds, by name.
func documentation(t *testing.T, typed reflect.Type) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	folder, ours := strings.CutPrefix(typed.PkgPath(), "github.com/dray-project/dray/")
	if !ours {
		return texts
	}
	for i := range typed.NumField() {
		if field := typed.Field(i); field.Anonymous {
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			for name, text := range documentation(t, embedded) {
				texts[name] = text
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(rootFolder, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(typed.Name(), "[")
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			if declared, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range declared.Fields.List {
					text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
					for _, name := range field.Names {
						texts[name.Name] = text
					}
				}
			}
			return false
		})
	}
	return texts
}

// TestSchema compares docs/outputs.schema.json and docs/outputs.md with the types of what commands print.
func TestSchema(t *testing.T) {
	all := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "What dray prints with -o json and -o yaml",
		Defs: make(map[string]*jsonschema.Schema),
	}
	var page strings.Builder
	page.WriteString("# What commands print for programs\n\n" +
		"A test writes this page and the [JSON schema](outputs.schema.json) from the code (`go test ./cmd/dray/internal/cli -run TestSchema -rewrite`), and fails if they are not current.\n" +
		"Another one checks what commands print by the schema. [The command line](" + filepath.Base("docs/command-line.md") + ") says what the documents are for.\n\n" +
		"All have the `apiVersion` `" + render.APIVersion + "`. Within a version, fields are added, not renamed or removed. `allocate` and `convert` print objects of Kubernetes.\n")
	cause := causeSchema(t)
	relax(cause)
	all.Defs["Cause"] = cause
	for _, k := range kinds() {
		s := schemaOf(t, k, false)
		all.Defs[k.name] = s
		all.OneOf = append(all.OneOf, &jsonschema.Schema{Ref: "#/$defs/" + k.name})
		fmt.Fprintf(&page, "\n## %s\n\n`dray %s`\n\n| field | type | |\n|---|---|---|\n", k.name, k.command)
		if k.name == "ExplanationList" {
			page.WriteString("| `items` | list | each as an Explanation |\n")
			continue
		}
		rows(&page, "", s)
	}
	page.WriteString("\n## Cause\n\nOf a refusal in an Explanation.\n\n| field | type | |\n|---|---|---|\n")
	rows(&page, "", cause)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{schemaFile: string(text) + "\n", outputsPage: page.String()} {
		if rewritten() {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if written, err := os.ReadFile(path); err != nil || string(written) != content {
			t.Errorf("%s is not what the code says (error %v): run the test with -rewrite", filepath.Base(path), err)
		}
	}
}

// rows are the fields of an object, with those of objects in it.
func rows(page *strings.Builder, prefix string, s *jsonschema.Schema) {
	for _, name := range s.PropertyOrder {
		property := s.Properties[name]
		if name == "apiVersion" || name == "kind" && prefix == "" {
			continue
		}
		row(page, prefix+name, property, slices.Contains(s.Required, name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.PropertyOrder, name) {
			row(page, prefix+name, s.Properties[name], true)
		}
	}
}

func row(page *strings.Builder, path string, s *jsonschema.Schema, always bool) {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	types = slices.DeleteFunc(slices.Clone(types), func(name string) bool { return name == "null" })
	typed := strings.Join(types, " or ")
	if typed == "array" {
		typed = "list"
	}
	if !always {
		typed += ", if any"
	}
	fmt.Fprintf(page, "| `%s` | %s | %s |\n", path, typed, strings.ReplaceAll(s.Description, "|", "\\|"))
	switch {
	case s.Items != nil && s.Items.Properties != nil:
		rows(page, path+"[].", s.Items)
	case s.Properties != nil:
		rows(page, path+".", s)
	}
}

// printed are commands, by the kind of what they print.
var printed = map[string]string{
	"DeviceInventory":      "devices -f examples/mig-partitions",
	"DeviceUsage":          "usage --by class -f examples/fleet-200",
	"Explanation":          "explain rank-3 -n train -f examples/gpu-nic-pcie",
	"ExplanationList":      "explain -A -f examples/fleet-200",
	"SimulatedAnyPlanList": "simulate plan --like hgx-1 --any -f examples/gpu-nic-pcie",
	"SimulatedDrain":       "simulate drain a -f examples/fragmented",
	"SimulatedFitList":     "simulate fits -f examples/single-gpu",
	"SimulatedGangList":    "simulate gang -f examples/gang-halves",
	"SimulatedMix":         "simulate plan --prices examples/cheapest-nodes/offers/prices.yaml -f examples/cheapest-nodes/cluster",
	"SimulatedPlanList":    "simulate plan --like hgx-1 -f examples/gpu-nic-pcie",
	"SimulatedRepack":      "simulate repack --goal nodes -f examples/fragmented",
	"SimulatedStartList":   "simulate when -f examples/single-gpu",
	"SimulatedVictimsList": "simulate victims trainer --any-priority -f examples/fragmented",
	"SimulatedWhatIfList":  "simulate what-if --add hgx-1=1 -f examples/gpu-nic-pcie",
	"Version":              "version",
}

// TestOutputs checks what commands print by the schema, which has no other fields here.
func TestOutputs(t *testing.T) {
	for _, k := range kinds() {
		resolved, err := schemaOf(t, k, true).Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		text := printJSON(printed[k.name])
		var document map[string]any
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			t.Errorf("%s: %v\n%s", k.name, err, text)
			continue
		}
		if err := resolved.Validate(document); err != nil {
			t.Errorf("%s: %v\n%.2000s", k.name, err, text)
		}
		if items, isList := document["items"].([]any); isList && len(items) == 0 {
			t.Errorf("%s: dray %s prints no items", k.name, printed[k.name])
		}
		document["surprise"] = true
		if err := resolved.Validate(document); err == nil {
			t.Errorf("%s: a field that is not in the schema passes", k.name)
		}
	}
}

// printJSON is what a command prints to its standard output.
func printJSON(command string) string {
	var out bytes.Buffer
	arguments := strings.Fields("dray " + strings.ReplaceAll(command, "examples/", rootFolder+"/examples/") + " -o json")
	Main(context.Background(), arguments, Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard})
	return out.String()
}

// rewritten reports whether the flag that datadriven defines is set.
func rewritten() bool {
	defined := flag.Lookup("rewrite")
	return defined != nil && defined.Value.String() == "true"
}
