// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure Read.
type Options struct {
	// Namespace is the namespace of namespaced objects that have none.
	Namespace string
	// Validate returns the errors of an object that was decoded and defaulted, one per field, each
	// with the field's path. nil accepts all objects.
	Validate func(runtime.Object) []error
	// Findings says how invalid objects are handled.
	Findings Findings
	// Untranslated disables the translation of objects of devmgmtproto.k8s.io.
	Untranslated bool
	// Kustomization is a folder whose kustomization is also read; "" for none.
	Kustomization string
	// Step is called after each document, and each item of a List; it may be nil.
	Step func()
}

// Findings says how invalid objects and unknown fields are handled. Unreadable files, and documents
// that are no Kubernetes objects, are always errors.
type Findings string

// Values of Findings.
const (
	// FindingsFail makes them errors. In objects that an API server has written, unknown fields are
	// only warnings, since the server may have another version.
	FindingsFail Findings = "strict"
	// FindingsWarn leaves out invalid objects, with a warning.
	FindingsWarn Findings = "warn"
	// FindingsIgnore accepts each object that can be decoded.
	FindingsIgnore Findings = "ignore"
)

type reader struct {
	options Options
	objects *Objects
	errs    []error
	// documents counts all documents, used or not.
	documents int
	// pods counts the pods of controllers.
	pods int

	envelopes envelopeCache
}

// Read reads all documents at the paths: files, folders (recursively), or Stdin. It goes on after
// an invalid object, so that the error has all findings. It unwraps to one error per finding, each
// with file, document, object and field. The objects are nil if there is an error.
func Read(paths []string, stdin io.Reader, options Options) (*Objects, error) {
	r := newReader(options)
	all, skipped, err := sources(paths, stdin)
	if err != nil {
		return nil, err
	}
	r.objects.Warnings = append(r.objects.Warnings, skipped...)
	for _, source := range all {
		content, err := source.read()
		if err != nil {
			return nil, err
		}
		r.readFile(source.name, content, source.found)
	}
	if options.Kustomization != "" {
		if err := r.kustomize(options.Kustomization); err != nil {
			return nil, err
		}
	}
	if r.documents == 0 && len(r.errs) == 0 {
		r.errs = append(r.errs, fmt.Errorf("%s: no Kubernetes objects", strings.Join(names(all), ", ")))
	}
	r.countConfiguration()
	if !options.Untranslated {
		r.translate()
	}
	r.checkAdminAccess()
	r.admit()
	return r.result()
}

func newReader(options Options) *reader {
	if options.Namespace == "" {
		options.Namespace = "default"
	}
	if options.Validate == nil {
		options.Validate = func(runtime.Object) []error { return nil }
	}
	if options.Findings == "" {
		options.Findings = FindingsFail
	}
	if options.Step == nil {
		options.Step = func() {}
	}
	return &reader{options: options, objects: NewObjects()}
}

// readFile reads all documents of a file. found says that the file was found in a folder; documents
// for other programs are then ignored.
func (r *reader) readFile(name string, content []byte, found bool) {
	isTemplate := false
	for _, document := range split(name, content) {
		before := len(r.errs)
		r.readDocument(document, found)
		if err := document.unrendered(r.errs[before:]); err != nil {
			r.errs = r.errs[:before]
			if !isTemplate {
				r.errs = append(r.errs, err)
			}
			isTemplate = true
		}
		r.options.Step()
	}
}

func (r *reader) readDocument(document document, found bool) {
	raw, err := document.toJSON()
	if last, isTwice := document.lastOfTwice(err); isTwice && r.options.Findings != FindingsFail {
		if r.options.Findings == FindingsWarn {
			r.objects.Warnings = append(r.objects.Warnings, fmt.Errorf("%w: the last one counts", err))
		}
		raw, err = last, nil
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return // as templates leave behind
	}
	if found && isForOthers(raw) {
		r.warn(document.origin, errors.New("passed over: neither kind nor metadata, so this is no Kubernetes object"+otherUse(document.origin.File)))
		return
	}
	r.documents++
	r.decode(raw, schema.GroupVersionKind{}, document.origin)
}

func (r *reader) fail(origin Origin, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", origin, err))
}

// object handles an error about an object that may be left out. It returns whether the object is
// used anyway.
func (r *reader) object(origin Origin, err error) bool {
	switch r.options.Findings {
	case FindingsIgnore:
		return true
	case FindingsWarn:
		r.warn(origin, fmt.Errorf("%w: the object is left out", err))
	default:
		r.fail(origin, err)
	}
	return false
}

func (r *reader) warn(origin Origin, err error) {
	r.objects.Warnings = append(r.objects.Warnings, fmt.Errorf("%s: %w", origin, err))
}

func names(all []source) []string {
	list := make([]string, len(all))
	for i, source := range all {
		list[i] = source.name
	}
	return list
}

func (r *reader) result() (*Objects, error) {
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.objects, nil
}
