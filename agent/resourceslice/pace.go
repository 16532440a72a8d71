// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// requested notes that a write was sent, whatever came of it.
func (s *poolState) requested() { s.notBefore = time.Now().Add(writeInterval) }

// attempted notes how an attempt ended. While the API server turns requests away, each
// attempt waits twice as long as the one before, or as long as the API server asks for.
// Updates do not shorten that. An error about what was sent costs no more than
// writeInterval: the next update may be without it.
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

// turnedAway tells whether an error says nothing about what was sent: the API server is
// overloaded, broken, or cannot be reached.
func turnedAway(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code < http.StatusBadRequest || code >= http.StatusInternalServerError
}
