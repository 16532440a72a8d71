// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"strings"
	"testing"
)

// topicOf puts statements into an allocate directive, whose first line is line 5.
func topicOf(statements string) string {
	return "cluster\nnode node-1\n----\n\nallocate one\n" + statements + "\n----\nunsatisfiable\n"
}

func TestParseNamesLineAndField(t *testing.T) {
	for _, test := range []struct{ name, statements, want string }{
		{"statement", "pod p", `topic:6: unknown statement "pod"`},
		{"node", "node", "topic:6: node: operand missing"},
		{"node clause", "node n1 ready", `topic:6: node n1: unknown clause "ready"`},
		{"duplicate", "node n1\nnode n1", "topic:7: node n1 is there already"},
		{"class config", "class c\n  config d {", "topic:7: class c: config: parameters: unexpected end of JSON input"},
		{"class config of requests", "class c config d requests=a {}", "topic:6: class c: config: a class has no requests"},
		{"slice", "slice gpu", "topic:6: slice gpu: expected driver/pool"},
		{"slice field", "slice d/p size=3", "topic:6: slice d/p: size: unknown field"},
		{"slice number", "slice d/p of=two", `topic:6: slice d/p: of: "two" is not a number`},
		{"selector", "slice d/p on nodes", `topic:6: slice d/p: on nodes: expected a requirement such as zone=a, found ""`},
		{"attribute", "slice d/p on n\n  gpu-0\n  gpu-1 a=", "topic:8: slice d/p: device gpu-1: a: value missing"},
		{"quotes", `slice d/p
  gpu a="b`, `topic:7: slice d/p: device gpu: a: "b is not a quoted string`},
		{"list", "slice d/p\n  gpu a=[1,b]", "topic:7: slice d/p: device gpu: a: list [1,b] mixes types"},
		{"list without end", "slice d/p\n  gpu a=[1", "topic:7: slice d/p: device gpu: a: list [1 has no closing bracket"},
		{"capacity", "slice d/p\n  gpu\n    capacity memory=much", `topic:8: slice d/p: device gpu: capacity: memory: "much" is not a quantity`},
		{"policy", "slice d/p\n  gpu capacity min=1", "topic:7: slice d/p: device gpu: capacity: min: policy without a capacity before it"},
		{"counter", "slice d/p\n  gpu consumes card", `topic:7: slice d/p: device gpu: consumes: card: expected name=value, found ""`},
		{"taint", "slice d/p\n  gpu taint broken", "topic:7: slice d/p: device gpu: taint: expected key=value:Effect or key:Effect"},
		{"span", "slice d/p\n  gpu-[0..256]", "topic:7: slice d/p: [0..256] is not a range of at most 256 numbers"},
		{"below a clause", "slice d/p\n  gpu\n    shareable\n      really", "topic:9: slice d/p: device gpu: line is indented below a clause, which has no parts"},
		{"indentation", "    node n1\n  node n2", "topic:7: line is indented less than its siblings"},
		{"tab", "node n1\n\tdeclares F", "topic:7: tab found, indent with spaces"},
		{"claim part", "claim c\n  pod p", `topic:7: claim c: unknown part "pod"`},
		{"request field", "claim c\n  request r size=2", "topic:7: claim c: request r: size: unknown field"},
		{"request clause", "claim c\n  request r\n    nearby", "topic:8: claim c: request r: nearby: unknown clause"},
		{"admin", "claim c\n  request r admin=yes", `topic:7: claim c: request r: admin: expected "no"; write "admin" to ask for admin access`},
		{"derived", "claim c\n  request r derive a", "topic:7: claim c: request r: derive: expected name := expression"},
		{"where", "claim c\n  request r where", "topic:7: claim c: request r: where: expression missing"},
		{"option", "claim c\n  request r\n    option o count=x", `topic:8: claim c: request r: option o: count: "x" is not a number`},
		{"option with admin", "claim c\n  request r\n    option o admin", "topic:8: claim c: request r: option o: options have no admin access"},
		{"options and clauses", "claim c\n  request r\n    option o\n    all", "topic:7: claim c: request r: options and clauses do not mix"},
		{"options and fields", "claim c\n  request r count=2\n    option o", "topic:7: claim c: request r: a request with options takes nothing else"},
		{"constraint", "claim c\n  match a of=b", "topic:7: claim c: match: of: unknown field"},
		{"allocated", "job -> d/p/v", `topic:6: expected claim/request, found "job"`},
		{"allocated device", "job/r -> d/v", `topic:6: job/r: expected driver/pool/device, found "d/v"`},
		{"allocated part", "allocated job\n  r d/p/v", `topic:7: allocated job: unknown part "r"`},
		{"allocated request", "allocated job\n  request r count=x", `topic:7: allocated job: request r: count: "x" is not a number`},
		{"allocated clause", "allocated job\n  r -> d/p/v freely", "topic:7: allocated job: freely: unknown clause"},
		{"kind", "yaml\n  apiVersion: v1\n  kind: Pod", `topic:6: yaml: no use for kind "Pod" of apiVersion "v1"`},
		{"yaml field", "yaml\n  apiVersion: v1\n  kind: Node\n  spek: {}", `topic:6: Node: error unmarshaling JSON: while decoding JSON: json: unknown field "spek"`},
		{"nameless", "yaml\n  apiVersion: v1\n  kind: Node", "topic:6: node without a name"},
	} {
		t.Run(test.name, func(t *testing.T) { expectError(t, topicOf(test.statements), test.want) })
	}
}

func TestParseDirectives(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"unknown", "forget\n----\n", `topic:1: unknown directive "forget"`},
		{"cluster argument", "cluster big\n----\n", `topic:1: cluster: unexpected "big"`},
		{"claim in a cluster", "cluster\nclaim c\n----\n", "topic:1: cluster: claim c belongs to an allocate directive"},
		{"name", "\nallocate\n----\n", "topic:2: allocate: name missing"},
		{"argument", "allocate a\\\n  speed=1\nnode n\n----\n", "topic:1: allocate: a: speed: unknown argument"},
		{"feature", "allocate a without=(DeviceTaints, Magic)\nnode n\n----\n", `topic:1: allocate: a: without: unknown feature "Magic"`},
		{"no node", "allocate a\n----\n", `topic:1: allocate: a: node: the cluster has no node ""`},
		{"other node", "allocate a node=m\nnode n\n----\n", `topic:1: allocate: a: node: the cluster has no node "m"`},
		{"same name", topicOf("") + "\nallocate one\n----\n", "topic:10: allocate: one is the name of the scenario on line 5, too"},
		{"separator", "cluster\nnode n\n", "topic:1: cluster: no ---- before the end of the file"},
		{"second separator", "cluster\n----\n----\n", "topic:3: expected output has a second ----"},
		{"arguments", "allocate a b=(\n----\n", "topic:1: cannot parse directive at column 14: allocate a b=("},
		{"explain first", "explain\n----\nbecause\n", "topic:1: explain: follows an allocate directive and takes nothing"},
	} {
		t.Run(test.name, func(t *testing.T) { expectError(t, test.text, test.want) })
	}
}

func expectError(t *testing.T, text, want string) {
	t.Helper()
	_, err := Parse("topic", text)
	switch {
	case err == nil:
		t.Errorf("no error, want %q", want)
	case err.Error() != want:
		t.Errorf("got error\n%s\nwant\n%s", err, want)
	}
}

func TestScenarioExtendsCluster(t *testing.T) {
	scenarios, err := Parse("topic", `
cluster
node n1
class a
class b where true
job/r -> d/p/v share
----

allocate first rule=(x.one, x.two) without=(AdminAccess) differs=0007
class a where false
job-2/r -> d/p/v share
claim c
----
unsatisfiable

explain
----
because

allocate second
----
`)
	if err != nil {
		t.Fatal(err)
	}
	first, second := scenarios[0], scenarios[1]
	if got := first.Case.Classes[0].Spec.Selectors; len(got) != 1 || got[0].CEL.Expression != "false" {
		t.Errorf("class a of the first scenario has selectors %v", got)
	}
	if got := second.Case.Classes[0].Spec.Selectors; got != nil {
		t.Errorf("class a of the second scenario has selectors %v", got)
	}
	share := func(i int) string {
		return string(*first.Case.Allocated[i].Status.Allocation.Devices.Results[0].ShareID)
	}
	if share(0) != "share-1" || share(1) != "share-2" {
		t.Errorf("shares are %s and %s", share(0), share(1))
	}
	if first.Case.Features.AdminAccess || !second.Case.Features.AdminAccess {
		t.Error("features are not those of the directive")
	}
	if got := strings.Join(first.Rules, " "); got != "x.one x.two" || first.Differs != "0007" || first.Explanation != "because\n" {
		t.Errorf("rules %q, differs %q, explanation %q", got, first.Differs, first.Explanation)
	}
}
