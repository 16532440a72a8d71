// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const theirNames = `package theirs

import "context"

const Limit = 3

const Other = 4

var ErrGone error

type Option func(*Helper) error

type Helper struct {
	Name   string
	Hidden int
	secret int
}

func (h *Helper) Start(ctx context.Context, options ...Option) (*Helper, error) { return h, nil }

func (h Helper) Stop(graceful bool) {}

type Plugin interface{ Prepare(names []string) map[string]Helper }

type Watcher interface{ Watch() }

func New(plugin Plugin, more ...Option) (*Helper, error) { return nil, nil }

func Missing() {}

func Inner() inner { return inner{} }

type inner struct{ Deep int }
`

// ourNames have the same under other names of parameters, an alias, and in another package;
// then what differs.
const ourNames = `package ours

import "context"

const Limit = 3

const Other = 5

var ErrGone error

type Option func(h *Helper) error

type names = []string

type Helper struct {
	Name string
	base
}

type base struct{}

func (base) Start(context.Context, ...Option) (*Helper, error) { return nil, nil }

func (h *Helper) Stop(graceful, more bool) {}

func (h *Helper) Extra() {}

type Plugin interface{ Prepare(all names) map[string]Helper }

type Watcher interface {
	Watch()
	Unwatch()
}

func New(plugin Plugin, more []Option) (*Helper, error) { return nil, nil }

func Inner() inner { return inner{} }

type inner struct{}
`

// TestNames: each exported name of theirs is an outcome, and fails if a program could not use
// ours in its place.
func TestNames(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/two\n", "theirs/theirs.go": theirNames, "ours/ours.go": ourNames} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compared := &names{Imports: map[string]string{"example.com/two/theirs": "example.com/two/ours"}}
	outcomes, err := compared.compare(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, outcome := range outcomes {
		got = append(got, outcome.Test+" "+string(outcome.Status))
	}
	want := []string{
		"theirs.ErrGone pass",
		"theirs.Helper pass", "theirs.Helper.Hidden fail", "theirs.Helper.Name pass", "theirs.Helper.Start pass", "theirs.Helper.Stop fail",
		"theirs.Inner pass",
		"theirs.Limit pass", "theirs.Missing fail", "theirs.New fail", "theirs.Option pass", "theirs.Other fail",
		"theirs.Plugin pass", "theirs.Plugin.Prepare pass",
		"theirs.Watcher pass", "theirs.Watcher.Unwatch fail", "theirs.Watcher.Watch pass",
	}
	if !slices.Equal(got, want) {
		t.Errorf("outcomes\n%q, want\n%q", got, want)
	}
	compared.Imports["example.com/two/nothing"] = "example.com/two/ours"
	if _, err := compared.compare(t.Context(), folder); err == nil {
		t.Error("a package that is not there is no error")
	}
}
