// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// handlerOf returns an HTTP handler that writes the returned error, if any, as the response.
func handlerOf(handle func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		if err == nil {
			return
		}
		code := StatusOf(err)
		if code == http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
			klog.FromContext(r.Context()).Error(err, "Request failed", "path", r.URL.Path)
		}
		http.Error(w, err.Error(), code)
	}
}

// StatusOf returns the HTTP status code for an error of a request.
func StatusOf(err error) int {
	var semantic semanticError
	switch {
	case errdefs.IsNotFound(err):
		return http.StatusNotFound
	case errors.As(err, &semantic):
		return http.StatusUnprocessableEntity
	case errdefs.IsInvalidInput(err):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// semanticError is an error about a value that can be parsed but has no valid meaning.
type semanticError struct{ error }

// InvalidInput implements errdefs.ErrInvalidInput.
func (semanticError) InvalidInput() bool { return true }

// wildcards returns the values of a path's wildcards with these names. Without such wildcards, it
// returns as many segments from the end of the path.
func wildcards(r *http.Request, names ...string) ([]string, error) {
	parts := make([]string, len(names))
	for i, name := range names {
		if parts[i] = r.PathValue(name); parts[i] == "" {
			return lastParts(r.URL, len(names))
		}
	}
	return parts, nil
}

// lastParts returns the last n segments of a path. It is an error if one of them is empty.
func lastParts(u *url.URL, n int) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if len(parts) < n {
		return nil, errdefs.NotFoundf("path %q: no such path", u.Path)
	}
	parts = parts[len(parts)-n:]
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil || text == "" {
			return nil, errdefs.NotFoundf("path %q: no such path", u.Path)
		}
		parts[i] = text
	}
	return parts, nil
}
