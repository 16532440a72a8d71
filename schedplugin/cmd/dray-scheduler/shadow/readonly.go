// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"net/http"
)

// errReadOnly is the error for a request that is not a read.
var errReadOnly = errors.New("a shadow writes nothing to the API server")

// readOnly passes reads: get, list and watch.
type readOnly struct{ next http.RoundTripper }

// ReadOnly wraps the transport of a client, for rest.Config.Wrap. Requests other than GET return an error and
// do not reach the next transport.
func ReadOnly(next http.RoundTripper) http.RoundTripper { return readOnly{next} }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		if request.Body != nil {
			_ = request.Body.Close() // required of a RoundTripper
		}
		return nil, fmt.Errorf("%w: %s %s", errReadOnly, request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request)
}
