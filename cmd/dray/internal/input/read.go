package input

import (
	"errors"
	"fmt"
	"io"

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
	// Step is called after each document; it may be nil.
	Step func()
}

type reader struct {
	options Options
	objects *Objects
	errs    []error
}

// Read reads all documents at the paths: files, folders (recursively), or Stdin.
// It reads on after a wrong object, so that the error lists everything that is
// wrong: it unwraps to one error per finding, each naming file, document, object
// and field. Objects is nil if there is an error.
func Read(paths []string, stdin io.Reader, options Options) (*Objects, error) {
	r := newReader(options)
	all, err := sources(paths, stdin)
	if err != nil {
		return nil, err
	}
	for _, source := range all {
		content, err := source.read()
		if err != nil {
			return nil, err
		}
		r.readFile(source.name, content)
	}
	return r.result()
}

func newReader(options Options) *reader {
	if options.Namespace == "" {
		options.Namespace = "default"
	}
	if options.Validate == nil {
		options.Validate = func(runtime.Object) []error { return nil }
	}
	if options.Step == nil {
		options.Step = func() {}
	}
	return &reader{options: options, objects: NewObjects()}
}

func (r *reader) readFile(name string, content []byte) {
	for _, document := range split(name, content) {
		raw, err := document.toJSON()
		if err != nil {
			r.errs = append(r.errs, err)
			continue
		}
		r.decode(raw, schema.GroupVersionKind{}, document.origin)
		r.options.Step()
	}
}

func (r *reader) fail(origin Origin, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", origin, err))
}

func (r *reader) result() (*Objects, error) {
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.objects, nil
}
