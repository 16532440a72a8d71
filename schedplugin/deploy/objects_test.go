package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// binaries is where `make controlplane install-manifests` puts them.
const binaries = "../../bin"

// variants are the ways to install, by what the renderer is asked for.
var variants = map[string][]string{
	"kustomize second":  {"kustomize", "second"},
	"kustomize default": {"kustomize", "default"},
	"helm second":       {"helm", "chart"},
	"helm default":      {"helm", "chart", "chart/values-default.yaml"},
	"kustomize all":     {"kustomize", "all"},
	"helm all":          {"helm", "chart", "chart/values-all.yaml"},
}

// rendered are the objects of a variant.
func rendered(t *testing.T, variant string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := decode(render(t, variants[variant]...))
	if err != nil {
		t.Fatalf("%s: %v", variant, err)
	}
	return objects
}

// render is what the renderer prints.
func render(t *testing.T, arguments ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "render"), arguments...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	text, err := command.Output()
	if err != nil {
		t.Fatalf("render %v: %v: %s; run make install-manifests first", arguments, err, &complaint)
	}
	return text
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// as is the only object of a kind with a name, typed. Names made of content end in more
// than the name.
func as[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		return typed
	}
	t.Fatalf("there is no %s", kind)
	return nil
}

// applier creates objects of any kind.
type applier struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(discoverer)
	if err != nil {
		return nil, err
	}
	return &applier{client: client, mapper: restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

// apply has the API server take the object as it is: unknown fields are errors.
func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured, dryRun ...string) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	client := dynamic.ResourceInterface(a.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = a.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = client.Create(ctx, object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
