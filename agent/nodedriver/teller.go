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

// tellInterval is how often the log says again what did not change.
const tellInterval = 10 * time.Minute

// teller logs what is wrong when it changes, and now and then while it lasts. Methods may be called
// concurrently.
type teller struct {
	mutex sync.Mutex
	said  map[string]statement // by subject
}

type statement struct {
	text string
	at   time.Time
}

// tell says what is wrong with a subject, or nothing if text is empty, and reports whether it said
// something that is wrong.
func (t *teller) tell(ctx context.Context, subject, text string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	last, known := t.said[subject]
	if text == "" {
		if known {
			klog.FromContext(ctx).Info("No more: " + last.text)
			delete(t.said, subject)
		}
		return false
	}
	if known && last.text == text && time.Since(last.at) < tellInterval {
		return false
	}
	klog.FromContext(ctx).Error(errors.New(text), "Devices cannot all be handed out")
	if t.said == nil {
		t.said = make(map[string]statement)
	}
	t.said[subject] = statement{text, time.Now()}
	return true
}

// forget says of the subjects with a prefix that they are no more, except those that are kept.
func (t *teller) forget(ctx context.Context, prefix string, keep []string) {
	t.mutex.Lock()
	var over []string
	for subject := range t.said {
		if strings.HasPrefix(subject, prefix) && !slices.Contains(keep, subject) {
			over = append(over, subject)
		}
	}
	t.mutex.Unlock()
	for _, subject := range over {
		t.tell(ctx, subject, "")
	}
}

// last is what was said of a subject last, or otherwise.
func (t *teller) last(subject, otherwise string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if said, known := t.said[subject]; known {
		return said.text
	}
	return otherwise
}
