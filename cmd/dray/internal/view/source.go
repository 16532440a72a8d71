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

// Source makes pictures of objects, and what-ifs of the last one. It is safe for concurrent use.
type Source struct {
	// Build makes a cluster of objects, which it does not modify.
	Build func(*input.Objects) (*cluster.Cluster, error)
	// Read reads manifests as the command line does.
	Read func(text string) (*input.Objects, error)
	// Covers chooses among what waits; nil shows all.
	Covers func(*cluster.Cluster, cluster.Workload) bool
	// Name says in one line what is shown. Arguments are how the command line is given it.
	Name, Arguments string
	// Live is set if Update is called again and again.
	Live bool

	lock    sync.Mutex
	objects *input.Objects
	last    *Picture
	lost    string
	readers map[chan Event]bool
	// outcomes are the last what-ifs, by number.
	outcomes map[int]*Picture
	asked    int
}

// Event is news for a page: a delta, or that the whole picture is to be read, or whether the cluster answers.
type Event struct {
	Name string // delta, whole or status
	Data any
}

// Status says whether the cluster answers.
type Status struct {
	// Lost says why not; empty if it does.
	Lost string `json:"lost"`
	Live bool   `json:"live"`
}

// Update makes a picture of objects, and tells those who follow.
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
		s.tell(event)
	}
	return nil
}

// mostWarnings is how many warnings about the input are notes.
const mostWarnings = 20

func warnings(objects *input.Objects) []string {
	var notes []string
	for i, warning := range objects.Warnings {
		if i == mostWarnings {
			return append(notes, fmt.Sprintf("and %s more", render.Count(len(objects.Warnings)-i, "warning")))
		}
		notes = append(notes, warning.Error())
	}
	return notes
}

// settle is how long objects may come in before a picture is made of them.
const settle = 200 * time.Millisecond

// Follow makes a new picture when the cluster has changed, until the context is done. Making pictures takes a quarter of the
// time at most.
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

// Picture is the last one, nil before the first.
func (s *Source) Picture() *Picture {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.last
}

// SetLost says that the cluster does not answer, and why, or with an empty text that it does again.
func (s *Source) SetLost(why string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.lost != why {
		s.lost = why
		s.tell(Event{"status", s.status()})
	}
}

func (s *Source) status() Status { return Status{Lost: s.lost, Live: s.Live} }

// backlog is how many events a slow reader may be behind.
const backlog = 16

// follow subscribes to events. A reader that is too slow is cut off, and asks for the whole picture when it comes back.
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

// tell is called with the lock held.
func (s *Source) tell(event Event) {
	for reader := range s.readers {
		select {
		case reader <- event:
		default:
			delete(s.readers, reader)
			close(reader)
		}
	}
}
