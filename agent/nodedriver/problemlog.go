// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// repeatInterval is how often a problem is logged again while it lasts.
const repeatInterval = 10 * time.Minute

// problemLog logs problems when they begin, change or end, and at an interval while they last. Its
// methods may be called concurrently.
type problemLog struct {
	mutex    sync.Mutex
	problems map[string]problem // by subject
}

type problem struct {
	text string
	at   time.Time
}

// set logs the problem of a subject, or its end if text is empty. It returns whether it logged a
// problem.
func (t *problemLog) set(ctx context.Context, subject, text string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	last, known := t.problems[subject]
	if text == "" {
		if known {
			klog.FromContext(ctx).Info("No more: " + last.text)
			delete(t.problems, subject)
		}
		return false
	}
	if known && last.text == text && time.Since(last.at) < repeatInterval {
		return false
	}
	klog.FromContext(ctx).Error(errors.New(text), "Devices cannot all be handed out")
	if t.problems == nil {
		t.problems = make(map[string]problem)
	}
	t.problems[subject] = problem{text, time.Now()}
	return true
}

// clearExcept ends the problems of all subjects with a prefix, except those in keep.
func (t *problemLog) clearExcept(ctx context.Context, prefix string, keep []string) {
	t.mutex.Lock()
	var over []string
	for subject := range t.problems {
		if strings.HasPrefix(subject, prefix) && !slices.Contains(keep, subject) {
			over = append(over, subject)
		}
	}
	t.mutex.Unlock()
	for _, subject := range over {
		t.set(ctx, subject, "")
	}
}

// last returns the current problem of a subject, or otherwise if there is none.
func (t *problemLog) last(subject, otherwise string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if said, known := t.problems[subject]; known {
		return said.text
	}
	return otherwise
}
