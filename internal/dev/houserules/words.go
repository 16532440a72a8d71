// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"regexp"
	"strings"
)

// placeOnDisk matches absolute paths that exist on one machine only: in
// somebody's home, in a scratch folder, in a build machine's checkout. Paths
// with a meaning on every node, such as those below /dev or /sys, pass.
var placeOnDisk = regexp.MustCompile(`(?:^|[^\w./~}-])/(?:` + strings.Join([]string{
	"root", "home", "Users", "tmp", "work", "workspace", "builds", "mnt", "var/tmp",
}, "|") + `)/\.?\w`)

// registryHost matches where packages are downloaded from: which mirror
// somebody uses is theirs to configure.
var registryHost = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`goproxy\.\w+`, `(?:proxy|sum|index)\.golang\.\w+`, `registry\.npmjs\.\w+`, `files\.pythonhosted\.\w+`, `artifactory\.\w+`,
}, "|") + `)`)

// conversation matches what people say to each other while a change is made
// and a reader of the repository cannot look up.
var conversation = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	`time[ -]?box\w*`, `sub-?agents?`, `helper[ ]sessions?`, `as[ ]requested`, `the[ ]brief`, `(?:AI|machine)[ -]generated`,
}, "|") + `)\b`)

var foreignWords = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{placeOnDisk, "%q is a path of one machine"},
	{registryHost, "%q is a package registry"},
	{conversation, "%q is not for readers of the repository"},
}

func checkWords(r *Repository) []Offence {
	var offences []Offence
	for _, file := range r.Files {
		for _, words := range foreignWords {
			for _, at := range words.pattern.FindAllStringIndex(file.Text, -1) {
				word := strings.TrimSpace(file.Text[at[0]:at[1]])
				offences = append(offences, Offence{file.Path, file.lineAt(at[1] - 1), fmt.Sprintf(words.text, word)})
			}
		}
	}
	return offences
}
