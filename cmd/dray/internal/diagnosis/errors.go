// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Error returns the error of a placement in terms of the manifests. A claim made from a template
// has the template's name. If a selector reads what no device has, or compares incompatible types,
// the error has the existing names. It also says where the object was read.
func Error(c *cluster.Cluster, p *cluster.Placement) string {
	text, origin := p.Err.Error(), p.Origin
	var failed *cel.EvalError
	if errors.As(p.Err, &failed) {
		text = withHint(c, text, failed)
	}
	for _, claim := range p.Before {
		template := c.TemplateOf(p.Workload, claim)
		full := "claim " + claim.Namespace + "/" + claim.Name
		if template == "" || !strings.Contains(text, full) {
			continue
		}
		text = strings.ReplaceAll(text, full, "ResourceClaimTemplate "+claim.Namespace+"/"+template)
		origin = c.TemplateOrigin(claim.Namespace, template)
	}
	var off *explain.FeatureOffError
	if errors.As(p.Err, &off) {
		text += fmt.Sprintf(": if the cluster has switched it on, add --feature-gates=%s=true", off.Feature)
	}
	if origin != "" {
		text += " (read from " + origin + ")"
	}
	return text
}

// withHint replaces the evaluator's hint, which is about one device, if no device of the cluster
// has what the expression reads.
func withHint(c *cluster.Cluster, text string, failed *cel.EvalError) string {
	if hint := nothingHas(c, failed.Expression); hint != "" {
		if failed.Hint != "" && strings.Contains(text, failed.Hint) {
			return strings.Replace(text, failed.Hint, hint, 1)
		}
		return text + ": " + hint
	}
	if hint := comparison(failed); hint != "" {
		return text + ": " + hint
	}
	return text
}

func nothingHas(c *cluster.Cluster, expression string) string {
	program, err := c.Programs().Selector(expression)
	if err != nil {
		return ""
	}
	reads := program.Reads()
	for _, name := range reads.Attributes {
		if hint := domainsIn(c.Slices(), attributes).missing(attributes, name, ""); hint != "" {
			return hint
		}
	}
	for _, name := range reads.Capacities {
		if hint := domainsIn(c.Slices(), capacities).missing(capacities, name, ""); hint != "" {
			return hint
		}
	}
	return ""
}

var compared = regexp.MustCompile(`(==|!=|<=|>=|<|>)\s*"([^"]*)"`)

// comparison returns how to compare values of a type other than string.
func comparison(failed *cel.EvalError) string {
	message := failed.Err.Error()
	switch {
	case strings.Contains(message, "quantities must match"):
		return "write Ki, Mi, Gi, Ti or k, M, G, T after the number"
	case strings.Contains(failed.Hint, "of type semver"):
		if literal := compared.FindStringSubmatch(failed.Expression); literal != nil {
			return fmt.Sprintf("compare versions with compareTo(semver(%q)) %s 0, or with isGreaterThan and isLessThan", literal[2], literal[1])
		}
		return "compare versions with compareTo(semver(...)), isGreaterThan or isLessThan"
	}
	return ""
}
