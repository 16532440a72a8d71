// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMayBeWritten(t *testing.T) {
	claims := schema.GroupResource{Group: resourceapi.GroupName, Resource: "resourceclaims"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":           {nil, false},
		"timeout":        {apierrors.NewTimeoutError("late", 0), true},
		"etcd":           {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), true},
		"no answer":      {&url.Error{Op: "Put", URL: "claim", Err: io.EOF}, true},
		"bad gateway":    {apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "put", claims, "one", "", 0, true), true},
		"conflict":       {apierrors.NewConflict(claims, "one", errors.New("changed")), false},
		"forbidden":      {apierrors.NewForbidden(claims, "one", errors.New("policy")), false},
		"not found":      {apierrors.NewNotFound(claims, "one"), false},
		"half an answer": {fmt.Errorf("claim default/one: update status: %w", fmt.Errorf("unexpected error when reading response body: %w", io.ErrUnexpectedEOF)), true},
		"no object":      {fmt.Errorf("claim default/one: update status: %w", errors.New("proto: illegal wireType 7")), true},
		"the plugin's":   {fmt.Errorf("claim default/one: %w", changed(new(resourceapi.ResourceClaim), "deleted")), false},
	} {
		if got := mayBeWritten(test.err); got != test.want {
			t.Errorf("%s: doubtful %t, want %t", name, got, test.want)
		}
	}
}
