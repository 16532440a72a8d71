// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// Source makes pictures of objects, and what-ifs of the latest picture. It is safe for concurrent
// use.
type Source struct {
	// Build returns the cluster of objects. It must not modify them.
	Build func(*input.Objects) (*cluster.Cluster, error)
	// Read reads manifests, with the options of the command line.
	Read func(text string) (*input.Objects, error)
	// Covers selects workloads that wait. nil selects all.
	Covers func(*cluster.Cluster, cluster.Workload) bool
	// Name describes the source. Arguments are the command line arguments for it.
	Name, Arguments string
	// Live says that Update is called repeatedly.
	Live bool

	lock    sync.Mutex
	objects *input.Objects
	last    *Picture
	lost    string
	readers map[chan Event]bool
	// outcomes has the latest what-ifs, by number.
	outcomes map[int]*Picture
	asked    int
}

// Event is a message to the page: a delta, a request to read the whole picture, or the status of
// the cluster.
type Event struct {
	Name string // delta, whole or status
	Data any
}

// Status says whether the cluster responds.
type Status struct {
	// Lost is why it does not respond, or empty.
	Lost string `json:"lost"`
	Live bool   `json:"live"`
}

// Update makes a picture of objects, and notifies subscribers.
func (s *Source) Update(ctx context.Context, objects *input.Objects) error {
	c, err := s.Build(objects)
	if err != nil {
		return err
	}
	before := s.Picture()
	p, err := NewPicture(ctx, c, Options{Covers: s.Covers, Notes: warnings(objects), Source: s.Name, Time: time.Now(), Before: before})
	if err != nil {
		return err
	}
	event := Event{Name: "whole", Data: struct{}{}}
	if before != nil {
		if delta := Compare(before, p); delta != nil {
			event = Event{Name: "delta", Data: delta}
			if delta.Empty() {
				p.Revision = before.Revision
			}
		}
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.objects, s.last = objects, p
	if before == nil || p.Revision != before.Revision {
		s.notify(event)
	}
	return nil
}

// maxWarnings is how many warnings about the input become notes.
const maxWarnings = 20

func warnings(objects *input.Objects) []string {
	var notes []string
	for i, warning := range objects.Warnings {
		if i == maxWarnings {
			return append(notes, fmt.Sprintf("and %s more", render.Count(len(objects.Warnings)-i, "warning")))
		}
		notes = append(notes, warning.Error())
	}
	return notes
}

// settle is how long to collect changes before a picture is made.
const settle = 200 * time.Millisecond

// Follow makes a new picture when the cluster has changed, until the context is done. It spends at
// most a quarter of the time on pictures.
func (s *Source) Follow(ctx context.Context, follower *input.Follower) {
	pause := settle
	for {
		select {
		case <-ctx.Done():
			return
		case <-follower.Changed():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		start := time.Now()
		err := follower.Broken()
		if err == nil {
			var objects *input.Objects
			if objects, err = follower.Objects(); err == nil {
				err = s.Update(ctx, objects)
			}
		}
		if err != nil {
			s.SetLost(err.Error())
		} else {
			s.SetLost("")
		}
		pause = max(settle, 3*time.Since(start))
	}
}

// Picture returns the latest picture, nil before the first.
func (s *Source) Picture() *Picture {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.last
}

// SetLost sets why the cluster does not respond. An empty text says that it responds again.
func (s *Source) SetLost(why string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.lost != why {
		s.lost = why
		s.notify(Event{"status", s.status()})
	}
}

func (s *Source) status() Status { return Status{Lost: s.lost, Live: s.Live} }

// backlog is how many events are buffered for a subscriber.
const backlog = 16

// follow subscribes to events. A subscriber that is too slow is removed. It must then read the
// whole picture.
func (s *Source) follow() (events chan Event, status Status, revision int64, end func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.readers == nil {
		s.readers = make(map[chan Event]bool)
	}
	events = make(chan Event, backlog)
	s.readers[events] = true
	if s.last != nil {
		revision = s.last.Revision
	}
	return events, s.status(), revision, func() {
		s.lock.Lock()
		defer s.lock.Unlock()
		if s.readers[events] {
			delete(s.readers, events)
			close(events)
		}
	}
}

// notify sends an event to all subscribers. The caller holds the lock.
func (s *Source) notify(event Event) {
	for reader := range s.readers {
		select {
		case reader <- event:
		default:
			delete(s.readers, reader)
			close(reader)
		}
	}
}
