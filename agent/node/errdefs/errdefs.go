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
// After any other error, another attempt may succeed.
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

// ErrInvalidInput is the class of errors about input that fails on each attempt.
type ErrInvalidInput interface {
	InvalidInput() bool
	error
}

// notFound and invalidInput add a class to an error, and do not change its text.
type (
	notFound     struct{ error } //nolint:errname // named after its class
	invalidInput struct{ error } //nolint:errname // named after its class
)

func (notFound) NotFound() bool         { return true }
func (e notFound) Unwrap() error        { return e.error }
func (invalidInput) InvalidInput() bool { return true }
func (e invalidInput) Unwrap() error    { return e.error }

// NotFound returns an error of the class NotFound with this text.
func NotFound(text string) error { return notFound{errors.New(text)} }

// NotFoundf is NotFound with a text that is formatted as by fmt.Errorf.
func NotFoundf(format string, args ...any) error { return notFound{fmt.Errorf(format, args...)} }

// AsNotFound adds the class NotFound to an error. It returns nil for nil.
func AsNotFound(err error) error {
	if err == nil {
		return nil
	}
	return notFound{err}
}

// IsNotFound tells whether an error is of the class NotFound. The outermost error in the chain that
// has the method decides.
func IsNotFound(err error) bool {
	found, is := outermost[ErrNotFound](err)
	return is && found.NotFound()
}

// InvalidInput returns an error of the class InvalidInput with this text.
func InvalidInput(text string) error { return invalidInput{errors.New(text)} }

// InvalidInputf is InvalidInput with a text that is formatted as by fmt.Errorf.
func InvalidInputf(format string, args ...any) error {
	return invalidInput{fmt.Errorf(format, args...)}
}

// AsInvalidInput adds the class InvalidInput to an error. It returns nil for nil.
func AsInvalidInput(err error) error {
	if err == nil {
		return nil
	}
	return invalidInput{err}
}

// IsInvalidInput tells whether an error is of the class InvalidInput. The outermost error in the
// chain that has the method decides.
func IsInvalidInput(err error) bool {
	found, is := outermost[ErrInvalidInput](err)
	return is && found.InvalidInput()
}

// outermost returns the first error of a chain that has the type Class. It follows Unwrap, and also
// Cause, which github.com/pkg/errors uses.
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

// cause returns the result of Cause of the first error in a chain that has this method, or nil.
func cause(err error) error {
	var wrapper interface{ Cause() error }
	if errors.As(err, &wrapper) {
		return wrapper.Cause()
	}
	return nil
}
