// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	// decisions are numbers in prose, in scenario files, in lists of known differences, and in constants.
	decisions = regexp.MustCompile(`(?i)(?:\bdecisions?[/ ]|\bdecision: "|\bdecision\w+ = "|\bdiffers=)([0-9]{4}(?:,? (?:and )?[0-9]{4})*)\b`)
	number    = regexp.MustCompile(`[0-9]{4}`)
	// decided is the heading of a section about a decision, or about several.
	decided = regexp.MustCompile(`(?m)^#{1,3} ([0-9]{4}(?:, [0-9]{4})*): `)
	// document leaves out what belongs to a web address or a longer path.
	document   = regexp.MustCompile(`(?:^|[^\w./:<>{}*-])((?:\.{0,2}/)*[\w-][\w./-]*\.md)\b`)
	link       = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)
	makeTarget = regexp.MustCompile("(?m)(?:`|^\\s*(?:\\$ )?)make ([a-z][a-z-]*)")
)

// checkReferences follows what is written about the repository's own files.
func checkReferences(r *Repository) []Offence {
	sections, offences := decisionSections(r)
	for _, file := range r.Files {
		if within(file.Path, "internal/dev/houserules") && file.IsTest() || within(file.Path, "tools/docs/site") {
			continue // samples refer to what is not there, and a site has paths of its own
		}
		for _, at := range numbers(file, decisions) {
			if name := file.Text[at : at+4]; !sections[name] {
				offences = append(offences, Offence{file.Path, file.lineAt(at), "decision " + name + " does not exist"})
			}
		}
		offences = append(offences, dangling(r, file, document, "%s does not exist", hasDocument)...)
		if strings.HasSuffix(file.Path, ".md") {
			offences = append(offences, dangling(r, file, link, "%s does not exist", hasDocument)...)
			offences = append(offences, dangling(r, file, makeTarget, "the Makefile has no target %s", hasTarget)...)
		}
	}
	return offences
}

// dangling are the pattern's first groups that do not exist.
func dangling(r *Repository, file *File, pattern *regexp.Regexp, text string, exists func(*Repository, *File, string) bool) []Offence {
	var offences []Offence
	for _, match := range pattern.FindAllStringSubmatchIndex(file.Text, -1) {
		if name := file.Text[match[2]:match[3]]; !exists(r, file, name) {
			offences = append(offences, Offence{file.Path, file.lineAt(match[2]), fmt.Sprintf(text, name)})
		}
	}
	return offences
}

// decisionSections are the numbers that have a section in docs/decisions. One with two sections is an offence.
func decisionSections(r *Repository) (map[string]bool, []Offence) {
	sections, offences := make(map[string]bool), []Offence(nil)
	for _, file := range r.Files {
		if !within(file.Path, "docs/decisions") || !strings.HasSuffix(file.Path, ".md") {
			continue
		}
		for _, at := range numbers(file, decided) {
			name := file.Text[at : at+4]
			if sections[name] {
				offences = append(offences, Offence{file.Path, file.lineAt(at), "decision " + name + " has two sections"})
			}
			sections[name] = true
		}
	}
	return sections, offences
}

// numbers are where the pattern's first groups have numbers of decisions.
func numbers(file *File, pattern *regexp.Regexp) []int {
	var found []int
	for _, match := range pattern.FindAllStringSubmatchIndex(file.Text, -1) {
		for _, at := range number.FindAllStringIndex(file.Text[match[2]:match[3]], -1) {
			found = append(found, match[2]+at[0])
		}
	}
	return found
}

// hasDocument accepts paths from the root and from where they are mentioned.
func hasDocument(r *Repository, from *File, name string) bool {
	return r.Has(path.Clean(name)) || r.Has(path.Join(from.Folder(), name))
}

func hasTarget(r *Repository, _ *File, target string) bool {
	for _, file := range r.Files {
		if file.Path == "Makefile" {
			return strings.Contains("\n"+file.Text, "\n"+target+":")
		}
	}
	return false
}
