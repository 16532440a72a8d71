// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Checkouts say where programs of others are that the module proxy does not have, by the last part of
// the name of their repository. The folder of "" has one for each program without an entry, with that name.
type Checkouts map[string]string

// Set adds a checkout, as NAME=FOLDER, or the folder of all others. It adds nothing if the folder
// is "". The error says that there is no such program.
func (c Checkouts) Set(text string) error {
	name, folder, named := strings.Cut(text, "=")
	switch {
	case !named:
		name, folder = "", text
	case !slices.ContainsFunc(programs, func(p Part) bool { return p.checkout() == name }):
		return fmt.Errorf("no part needs a checkout of %q", name)
	}
	if folder == "" {
		return nil
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	c[name] = folder
	return nil
}

// String is for package flag, which shows what is set without one.
func (c Checkouts) String() string { return "" }

// of returns the folder of the checkout that a part needs, or "".
func (c Checkouts) of(part Part) string {
	name := part.checkout()
	if folder, named := c[name]; named && name != "" {
		return folder
	}
	if folder, all := c[""]; all && name != "" {
		return filepath.Join(folder, name)
	}
	return ""
}

// checkout is the name of the checkout that a part needs, or "".
func (p Part) checkout() string {
	if p.Program == nil || p.Program.Version != "" {
		return ""
	}
	return filepath.Base(p.Counterpart)
}

// Lacks says which checkout a part needs that is not there.
func (p Part) Lacks(checkouts Checkouts) error {
	if p.checkout() == "" {
		return nil
	}
	err := errors.New("none is named")
	if folder := checkouts.of(p); folder != "" {
		_, err = os.Stat(filepath.Join(folder, "go.mod"))
	}
	if err != nil {
		return fmt.Errorf("a checkout of %s, commit %s, is needed: %w", p.Program.Repository, p.Program.Commit, err)
	}
	return nil
}
