// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault says which requests are spoilt, and how.
type Fault struct {
	// Methods are those of HTTP that are meant; none stands for all.
	Methods []string
	// Path is searched for in the path of the request's URL.
	Path *regexp.Regexp
	// Times is how many requests are spoilt before the fault is gone.
	Times int
	// Status is the code of the answer that takes the place of the API server's. With 0
	// the API server does what is asked of it, and the connection breaks before it can
	// say so.
	Status int

	hold *Hold // nil: the request is spoilt, and not held
}

func (f *Fault) meets(r *http.Request) bool {
	return f.Times > 0 && f.Path.MatchString(r.URL.Path) && (len(f.Methods) == 0 || slices.Contains(f.Methods, r.Method))
}

// reasons are what the API server says along with a code, and clients branch on.
var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

// answer writes an error as the API server does.
func answer(w http.ResponseWriter, code int) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Reason:   reasons[code],
		Message:  "fault injected by a test",
		Code:     int32(code),
	})
	if err != nil {
		panic(err) // a Status without details is always JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// void is an answer that nobody gets.
type void struct{ header http.Header }

func (v void) Header() http.Header               { return v.header }
func (v void) Write(content []byte) (int, error) { return len(content), nil }
func (v void) WriteHeader(int)                   {}
