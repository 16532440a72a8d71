// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package errdefs classifies the errors that providers of virtual nodes return.
//
// Classes are interfaces. A provider may use the constructors of this package, or
// return errors of its own with the method that makes the class: an error made
// for virtual-kubelet's package of this name is recognised here, too.
//
//	NotFound() bool       the provider does not have the pod
//	InvalidInput() bool   the pod can never run here, so that another attempt is useless
//
// Everything else may go better next time.
package errdefs

import (
	"errors"
	"fmt"
)

// ErrNotFound is the class of errors about an object that does not exist.
type ErrNotFound interface {
	NotFound() bool
	error
}

// ErrInvalidInput is the class of errors about input that no repetition makes
// acceptable.
type ErrInvalidInput interface {
	InvalidInput() bool
	error
}

// notFound and invalidInput add a class to an error, and leave its text alone.
type (
	notFound     struct{ error } //nolint:errname // named after its class
	invalidInput struct{ error } //nolint:errname // named after its class
)

func (notFound) NotFound() bool         { return true }
func (e notFound) Unwrap() error        { return e.error }
func (invalidInput) InvalidInput() bool { return true }
func (e invalidInput) Unwrap() error    { return e.error }

// NotFound returns an error with this text that says: there is no such object.
func NotFound(text string) error { return notFound{errors.New(text)} }

// NotFoundf is NotFound with a text that is formatted as by fmt.Errorf.
func NotFoundf(format string, args ...any) error { return notFound{fmt.Errorf(format, args...)} }

// AsNotFound makes an error one of this class. It returns nil for nil.
func AsNotFound(err error) error {
	if err == nil {
		return nil
	}
	return notFound{err}
}

// IsNotFound tells whether an error, or one that it wraps, is of the class. The
// outermost one that has an opinion decides.
func IsNotFound(err error) bool {
	found, is := outermost[ErrNotFound](err)
	return is && found.NotFound()
}

// InvalidInput returns an error with this text that says: this can never work.
func InvalidInput(text string) error { return invalidInput{errors.New(text)} }

// InvalidInputf is InvalidInput with a text that is formatted as by fmt.Errorf.
func InvalidInputf(format string, args ...any) error {
	return invalidInput{fmt.Errorf(format, args...)}
}

// AsInvalidInput makes an error one of this class. It returns nil for nil.
func AsInvalidInput(err error) error {
	if err == nil {
		return nil
	}
	return invalidInput{err}
}

// IsInvalidInput tells whether an error, or one that it wraps, is of the class. The
// outermost one that has an opinion decides.
func IsInvalidInput(err error) bool {
	found, is := outermost[ErrInvalidInput](err)
	return is && found.InvalidInput()
}

// outermost follows Unwrap, and Cause, by which errors told what they wrap before
// Go had a way of its own.
func outermost[Class error](err error) (Class, bool) {
	for err != nil {
		var class Class
		if errors.As(err, &class) {
			return class, true
		}
		err = cause(err)
	}
	var none Class
	return none, false
}

// cause is what the first error of a chain that has a Cause says.
func cause(err error) error {
	var wrapper interface{ Cause() error }
	if errors.As(err, &wrapper) {
		return wrapper.Cause()
	}
	return nil
}
