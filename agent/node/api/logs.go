// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// ContainerLogsHandlerFunc returns the log of a container. With opts.Follow, reads block until
// there is more, or the container has ended. The log is closed when the client disconnects.
type ContainerLogsHandlerFunc func(ctx context.Context, namespace, podName, containerName string, opts ContainerLogOpts) (io.ReadCloser, error)

// ContainerLogOpts says what part of a log is wanted. With zero values, it is the whole log.
type ContainerLogOpts struct {
	Tail         int // lines from the end
	LimitBytes   int
	Timestamps   bool
	Follow       bool
	Previous     bool // the log of the container's previous start
	SinceSeconds int
	SinceTime    time.Time
}

// HandleContainerLogs streams the log of a container to the client.
func HandleContainerLogs(h ContainerLogsHandlerFunc) http.HandlerFunc {
	if h == nil {
		return NotImplemented
	}
	return handlerOf(func(w http.ResponseWriter, r *http.Request) error {
		path, err := wildcards(r, "namespace", "pod", "container")
		if err != nil {
			return err
		}
		options, err := ParseLogOptions(r.URL.Query())
		if err != nil {
			return err
		}
		log, err := h(r.Context(), path[0], path[1], path[2], logOpts(options))
		if err != nil {
			return fmt.Errorf("error getting container logs: %w", err)
		}
		// A read may block for ever after the client has disconnected. Closing the log ends it.
		closed := context.AfterFunc(r.Context(), func() { _ = log.Close() })
		defer func() {
			if closed() {
				_ = log.Close()
			}
		}()
		out := flusher{w, http.NewResponseController(w)}
		if _, err := io.Copy(out, log); err != nil && r.Context().Err() == nil {
			klog.FromContext(r.Context()).Error(err, "Log of a container is not complete", "namespace", path[0], "pod", path[1], "container", path[2])
		}
		return nil
	})
}

// flusher flushes the response after each write.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

func (f flusher) Write(content []byte) (int, error) {
	n, err := f.Writer.Write(content)
	if flushed := f.control.Flush(); !errors.Is(flushed, http.ErrNotSupported) {
		err = errors.Join(err, flushed)
	}
	return n, err
}

func logOpts(options *corev1.PodLogOptions) ContainerLogOpts {
	opts := ContainerLogOpts{
		Tail: int(ptr.Deref(options.TailLines, 0)), LimitBytes: int(ptr.Deref(options.LimitBytes, 0)), SinceSeconds: int(ptr.Deref(options.SinceSeconds, 0)),
		Timestamps: options.Timestamps, Follow: options.Follow, Previous: options.Previous,
	}
	if options.SinceTime != nil {
		opts.SinceTime = options.SinceTime.Time
	}
	return opts
}

// ParseLogOptions reads PodLogOptions from the query of a request, as the API server encodes them.
// Fields that only the API server reads are left out. Errors are of the class InvalidInput.
func ParseLogOptions(query url.Values) (*corev1.PodLogOptions, error) {
	options, err := decode(query)
	if err != nil {
		return nil, errdefs.AsInvalidInput(fmt.Errorf("query: %w", err))
	}
	if err := validate(options); err != nil {
		return nil, semanticError{err}
	}
	return options, nil
}

// decode reads options from a query. A parameter with an empty value counts as absent.
func decode(query url.Values) (*corev1.PodLogOptions, error) {
	options := new(corev1.PodLogOptions)
	numbers := map[string]**int64{"tailLines": &options.TailLines, "limitBytes": &options.LimitBytes, "sinceSeconds": &options.SinceSeconds}
	for name, field := range numbers {
		if query.Get(name) == "" {
			continue
		}
		number, err := strconv.ParseInt(query.Get(name), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*field = &number
	}
	for name, field := range map[string]*bool{"follow": &options.Follow, "previous": &options.Previous, "timestamps": &options.Timestamps} {
		if query.Get(name) == "" {
			continue
		}
		var err error
		if *field, err = strconv.ParseBool(query.Get(name)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("sinceTime: %w", err)
		}
		options.SinceTime = ptr.To(metav1.NewTime(since))
	}
	if text := query.Get("stream"); text != "" {
		options.Stream = ptr.To(text)
	}
	return options, nil
}

// validate returns an error for options that the API's validation of PodLogOptions refuses.
func validate(options *corev1.PodLogOptions) error {
	switch {
	case options.TailLines != nil && *options.TailLines < 0:
		return fmt.Errorf("tailLines: %d: must not be negative", *options.TailLines)
	case options.LimitBytes != nil && *options.LimitBytes < 1:
		return fmt.Errorf("limitBytes: %d: must be positive", *options.LimitBytes)
	case options.SinceSeconds != nil && *options.SinceSeconds < 1:
		return fmt.Errorf("sinceSeconds: %d: must be positive", *options.SinceSeconds)
	case options.SinceSeconds != nil && options.SinceTime != nil:
		return errors.New("sinceSeconds and sinceTime: at most one may be set")
	}
	stream := ptr.Deref(options.Stream, corev1.LogStreamAll)
	if !slices.Contains([]string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}, stream) {
		return fmt.Errorf("stream: %q: must be All, Stdout or Stderr", stream)
	}
	return nil
}
