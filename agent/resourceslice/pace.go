// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// requested records that a write was sent, whatever its result.
func (s *poolState) requested() { s.notBefore = time.Now().Add(writeInterval) }

// attempted records the result of an attempt, and sets the time of the next one. While the API
// server is overloaded or unreachable, the delay doubles with each attempt, or is the Retry-After
// of the response. Updates do not shorten it. After other errors, the delay is writeInterval,
// because the next update may fix them.
func (s *poolState) attempted(err error) {
	switch {
	case err == nil:
		s.failures = 0
	case !turnedAway(err):
		s.failures = 0
		s.requested()
	default:
		wait := min(writeInterval<<min(s.failures, 16), maxWriteInterval)
		if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
			wait = max(wait, min(time.Duration(seconds)*time.Second, maxWriteInterval))
		}
		s.failures++
		s.notBefore = time.Now().Add(wait)
	}
}

// turnedAway tells whether an error is independent of the request's content: the API server is
// overloaded, failing, or unreachable.
func turnedAway(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code < http.StatusBadRequest || code >= http.StatusInternalServerError
}
