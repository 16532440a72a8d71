// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

//go:embed manifests
var manifests embed.FS

// create creates the objects of a manifest, and returns them.
func create(ctx context.Context, client kubernetes.Interface, name string) ([]runtime.Object, error) {
	objects, err := read(name)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := createObject(ctx, client, object); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
	}
	return objects, nil
}

// read decodes a file of the folder manifests.
func read(name string) ([]runtime.Object, error) {
	text, err := manifests.ReadFile(path.Join("manifests", name))
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	buffer := make([]byte, len(text))
	for {
		length, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(buffer[:length], nil, nil)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: object %d: %w", name, len(objects)+1, err)
		}
		objects = append(objects, object)
	}
}

func createObject(ctx context.Context, client kubernetes.Interface, object runtime.Object) error {
	var err error
	switch o := object.(type) {
	case *corev1.Namespace:
		_, err = client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Pod:
		_, err = client.CoreV1().Pods(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *schedulingv1.PriorityClass:
		_, err = client.SchedulingV1().PriorityClasses().Create(ctx, o, metav1.CreateOptions{})
	case *resourceapi.DeviceClass:
		_, err = client.ResourceV1().DeviceClasses().Create(ctx, o, metav1.CreateOptions{})
	case *resourceapi.ResourceClaim:
		_, err = client.ResourceV1().ResourceClaims(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *resourceapi.ResourceClaimTemplate:
		_, err = client.ResourceV1().ResourceClaimTemplates(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("%T has no place in a manifest", object)
	}
	return err
}
