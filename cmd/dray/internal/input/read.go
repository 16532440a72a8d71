// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options of reading.
type Options struct {
	// Namespace is given to namespaced objects that have none.
	Namespace string
	// Validate returns what is wrong with an object that was decoded and given
	// its defaults, one error per field, each naming its field. Nil accepts all.
	Validate func(runtime.Object) []error
	// Findings says what becomes of an object that is wrong.
	Findings Findings
	// Untranslated leaves objects of devmgmtproto.k8s.io as they are: nothing of v1 is made from
	// them.
	Untranslated bool
	// Kustomization is a folder to build and read besides the paths; "" for none.
	Kustomization string
	// Step is called after each document, and each item of a List; it may be nil.
	Step func()
}

// Findings is what becomes of objects that are wrong, and of fields that do not exist.
// Files that cannot be read, and documents that are no Kubernetes objects, are errors
// always.
type Findings string

// The values of Findings.
const (
	// FindingsFail makes them errors. In objects that an API server has written,
	// unknown fields are warnings: the server may be of another version.
	FindingsFail Findings = "strict"
	// FindingsWarn leaves out objects that are wrong, and says so.
	FindingsWarn Findings = "warn"
	// FindingsIgnore takes each object as it is, as far as it can be decoded.
	FindingsIgnore Findings = "ignore"
)

type reader struct {
	options Options
	objects *Objects
	errs    []error
	// documents counts what was read, used or not.
	documents int
	// pods counts those that controllers stand for.
	pods int

	beginnings beginnings
}

// Read reads all documents at the paths: files, folders (recursively), or Stdin.
// It reads on after a wrong object, so that the error lists everything that is
// wrong: it unwraps to one error per finding, each naming file, document, object
// and field. Objects is nil if there is an error.
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

// readFile reads all documents of a file. If nobody has named the file, those that are meant for other
// programs are passed over.
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
	if err != nil {
		r.errs = append(r.errs, err)
		return
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

// object says that something is wrong with an object which can be left out. It reports
// whether the object is to be used all the same.
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
