// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manual has the hidden command with which each program writes its manual pages.
package manual

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// NewCommand returns a command "man FOLDER", which writes a page for the root command and each command below
// it. Nothing else, such as the date, affects the pages.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write manual pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			root, epoch := command.Root(), time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Title: strings.ToUpper(root.Name()), Section: "1", Source: "Dray", Date: &epoch}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("manual pages: %w", err)
			}
			return nil
		},
	}
}
