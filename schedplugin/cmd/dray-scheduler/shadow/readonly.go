// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"net/http"
)

// errReadOnly refuses a request that is not a read.
var errReadOnly = errors.New("a shadow writes nothing to the API server")

// readOnly lets reads pass: get, list and watch.
type readOnly struct{ next http.RoundTripper }

// ReadOnly wraps the transport of a client, for rest.Config.Wrap. All requests but GET end with an error and
// do not reach the next transport.
func ReadOnly(next http.RoundTripper) http.RoundTripper { return readOnly{next} }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		if request.Body != nil {
			_ = request.Body.Close() // as a RoundTripper has to
		}
		return nil, fmt.Errorf("%w: %s %s", errReadOnly, request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request)
}
