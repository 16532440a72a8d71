package houserules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	decision = regexp.MustCompile(`(?i)\bdecisions?[/ ]([0-9]{4})\b`)
	// document leaves out what belongs to a web address or a longer path.
	document   = regexp.MustCompile(`(?:^|[^\w./:<>{}*-])((?:\.{0,2}/)*[\w-][\w./-]*\.md)\b`)
	link       = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)
	makeTarget = regexp.MustCompile("(?m)(?:`|^\\s*(?:\\$ )?)make ([a-z][a-z-]*)")
)

// checkReferences follows what is written about the repository's own files.
func checkReferences(r *Repository) []Offence {
	var offences []Offence
	for _, file := range r.Files {
		if within(file.Path, "internal/dev/houserules") && file.IsTest() || within(file.Path, "tools/docs/site") {
			continue // samples refer to what is not there, and a site has paths of its own
		}
		offences = append(offences, dangling(r, file, decision, "decision %s does not exist", hasDecision)...)
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

func hasDecision(r *Repository, _ *File, number string) bool {
	for _, file := range r.Files {
		if strings.HasPrefix(file.Path, "docs/decisions/"+number+"-") {
			return true
		}
	}
	return false
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
