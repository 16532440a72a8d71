// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

const (
	subdomainRule = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	labelRule     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	keyForm       = `a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`
	valueRule     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	keyRule       = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
)

func TestRequests(t *testing.T) {
	checkRules(t, []rule{
		{"fine", claimOf(""), ""},
		{"a name twice", requestsOf("{name: a, exactly: {deviceClassName: c}}, {name: a, exactly: {deviceClassName: c}}"),
			`spec.devices.requests[1].name: Duplicate value: "a"`},
		{"a name that is no label", requestsOf("{name: A, exactly: {deviceClassName: c}}"),
			`spec.devices.requests[0].name: Invalid value: "A": ` + labelRule},
		{"no class", requestsOf("{name: a, exactly: {}}"), "spec.devices.requests[0].exactly.deviceClassName: Required value"},
		{"a class that is no subdomain", requestsOf("{name: a, exactly: {deviceClassName: C}}"),
			`spec.devices.requests[0].exactly.deviceClassName: Invalid value: "C": ` + subdomainRule},
		{"neither kind", requestsOf("{name: a}"), "spec.devices.requests[0]: Required value: must set exactly one of exactly and firstAvailable"},
		{"both kinds", requestsOf("{name: a, exactly: {deviceClassName: c}, firstAvailable: [{name: x, deviceClassName: c}]}"),
			`spec.devices.requests[0]: Invalid value: "a": must set exactly one of exactly and firstAvailable`},
		{"most requests", requestsOf(listOf(32, "{name: r%d, exactly: {deviceClassName: c}}")), ""},
		{"too many requests", requestsOf(listOf(33, "{name: r%d, exactly: {deviceClassName: c}}")),
			"spec.devices.requests: Too many: 33: must have at most 32 items"},
		{"most alternatives", requestsOf("{name: a, firstAvailable: [" + listOf(8, "{name: x%d, deviceClassName: c}") + "]}"), ""},
		{"too many alternatives", requestsOf("{name: a, firstAvailable: [" + listOf(9, "{name: x%d, deviceClassName: c}") + "]}"),
			"spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"},
		{"an alternative without a class", requestsOf("{name: a, firstAvailable: [{name: x}]}"), "spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value"},
		{"an alternative twice", requestsOf("{name: a, firstAvailable: [{name: x, deviceClassName: c}, {name: x, deviceClassName: c}]}"),
			`spec.devices.requests[0].firstAvailable[1].name: Duplicate value: "x"`},
		{"count below one", requestOf("count: -1"), "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"},
		{"count of all", requestOf("allocationMode: All, count: 1"),
			"spec.devices.requests[0].exactly.count: Invalid value: 1: must not be set when allocationMode is All"},
		{"unknown mode", requestOf("allocationMode: Some"),
			`spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`},
		// The documentation of the API permits neither, the API server does.
		{"capacity", requestOf(`capacity: {requests: {memory: -1, "a b": 1}}`), ""},
		{"many tolerations", requestOf("tolerations: [" + listOf(17, "{key: k%d}") + "]"), ""},
		{"tolerations", requestOf("tolerations: [{key: a, operator: Exists, value: v}, {value: v}, {key: a, operator: In}, {key: a, effect: Never}, {operator: Exists, effect: NoExecute}, {effect: NoSchedule}]"),
			`spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty when operator is Exists
spec.devices.requests[0].exactly.tolerations[2].operator: Unsupported value: "In": supported values: "Equal", "Exists"
spec.devices.requests[0].exactly.tolerations[3].effect: Unsupported value: "Never": supported values: "None", "NoSchedule", "NoExecute"`},
	})
}

func TestExpressions(t *testing.T) {
	long := "'" + strings.Repeat("x", 10*1024) + "' == ''"
	checkRules(t, []rule{
		{"fine", requestsOf(`{name: b, exactly: {deviceClassName: c, selectors: [{cel: {expression: "true"}}], derivedAttributes: [{name: a.example.com/n, expression: "1"}]}}, ` +
			`{name: p, firstAvailable: [{name: x, deviceClassName: c, derivedAttributes: [{name: a.example.com/o, expression: "1"}]}, {name: z, deviceClassName: c, derivedAttributes: [{name: a.example.com/p, expression: "1"}]}]}` +
			"], constraints: [{matchAttribute: a.example.com/n}, {requests: [p], distinctAttribute: a.example.com/o}, {requests: [p/z], matchAttribute: a.example.com/p}"), ""},
		{"derived attributes that nothing compares", requestsOf(`{name: a, exactly: {deviceClassName: c, derivedAttributes: [{name: a.example.com/n, expression: "1"}]}}, {name: b, exactly: {deviceClassName: c}}, ` +
			`{name: p, firstAvailable: [{name: x, deviceClassName: c, derivedAttributes: [{name: a.example.com/p, expression: "1"}]}, {name: z, deviceClassName: c}]}` +
			"], constraints: [{requests: [b], matchAttribute: a.example.com/n}, {requests: [p/z], matchAttribute: a.example.com/p}"),
			`spec.devices.requests[0].exactly.derivedAttributes[0].name: Invalid value: "a.example.com/n": no constraint about this request compares it
spec.devices.requests[2].firstAvailable[0].derivedAttributes[0].name: Invalid value: "a.example.com/p": no constraint about this request compares it`},
		{"no expression", requestOf("selectors: [{}, {cel: {expression: ''}}]"),
			`spec.devices.requests[0].exactly.selectors[0].cel: Required value
spec.devices.requests[0].exactly.selectors[1].cel.expression: Required value`},
		{"too long", requestOf(`selectors: [{cel: {expression: "` + long + `"}}]`),
			"spec.devices.requests[0].exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"},
		{"too many", requestOf("selectors: [" + listOf(33, "{cel: {expression: 'true'}}") + "]"),
			"spec.devices.requests[0].exactly.selectors: Too many: 33: must have at most 32 items"},
		{"too many in a class", classOf("selectors: [" + listOf(33, "{cel: {expression: 'true'}}") + "]"),
			"spec.selectors: Too many: 33: must have at most 32 items"},
		{"derived attribute without a domain", derivedOf("{name: numa, expression: '1'}"),
			`spec.devices.requests[0].exactly.derivedAttributes[0].name: Invalid value: "numa": must include a domain, as in dra.example.com/name
spec.devices.requests[0].exactly.derivedAttributes[0].name: Invalid value: "numa": no constraint about this request compares it`},
		{"derived attribute twice", derivedOf("{name: a.example.com/n1, expression: '1'}, {name: a.example.com/n1, expression: '2'}"),
			`spec.devices.requests[0].exactly.derivedAttributes[1].name: Duplicate value: "a.example.com/n1"`},
		{"derived attributes without names", requestOf(`derivedAttributes: [{name: "", expression: "1"}, {name: "", expression: "2"}]`),
			"spec.devices.requests[0].exactly.derivedAttributes[0].name: Required value\nspec.devices.requests[0].exactly.derivedAttributes[1].name: Required value"},
		{"too many derived attributes", derivedOf(listOf(33, "{name: a.example.com/n%d, expression: '1'}")),
			`spec.devices.requests[0].exactly.derivedAttributes: Too many: 33: must have at most 32 items
spec.devices.requests[0].exactly.derivedAttributes[32].name: Invalid value: "a.example.com/n32": no constraint about this request compares it`},
	})
}

func TestConstraints(t *testing.T) {
	checkRules(t, []rule{
		{"fine", claimOf("constraints: [{requests: [a, p/x], matchAttribute: a.example.com/n}, {distinctAttribute: a.example.com/n}]"), ""},
		// The API server looks at matchAttribute only, and at no name with two slashes.
		{"both kinds", claimOf("constraints: [{matchAttribute: a.example.com/n, distinctAttribute: numa}, {matchAttribute: a/b/c}]"), ""},
		{"capitals in a domain", claimOf("constraints: [{matchAttribute: A.example.com/n}]"),
			`spec.devices.constraints[0].matchAttribute: Invalid value: "A.example.com": ` + subdomainRule},
		{"unknown request", claimOf("constraints: [{requests: [a, z, p/z], matchAttribute: a.example.com/n}]"),
			`spec.devices.constraints[0].requests[1]: Invalid value: "z": must be the name of a request in the claim, or request/subrequest
spec.devices.constraints[0].requests[2]: Invalid value: "p/z": must be the name of a request in the claim, or of a subrequest of p`},
		{"request twice", claimOf("constraints: [{requests: [a, b, a], matchAttribute: a.example.com/n}]"),
			`spec.devices.constraints[0].requests[2]: Duplicate value: "a"`},
		{"neither kind", claimOf("constraints: [{}]"), "spec.devices.constraints[0]: Required value: must set exactly one of matchAttribute and distinctAttribute"},
		{"no domain", claimOf("constraints: [{distinctAttribute: numa}]"),
			`spec.devices.constraints[0].distinctAttribute: Invalid value: "numa": must include a domain, as in dra.example.com/name`},
		{"too many", claimOf("constraints: [" + listOf(33, "{matchAttribute: a.example.com/n}") + "]"),
			"spec.devices.constraints: Too many: 33: must have at most 32 items"},
	})
}

func TestConfigs(t *testing.T) {
	large := `"` + strings.Repeat("x", 10*1024) + `"`
	checkRules(t, []rule{
		{"fine", claimOf("config: [{requests: [p], opaque: {driver: gpu.example.com, parameters: {kind: K}}}]"), ""},
		{"fine in a class", classOf("config: [{opaque: {driver: gpu.example.com, parameters: {}}}]"), ""},
		{"no kind", claimOf("config: [{}]"), "spec.devices.config[0].opaque: Required value"},
		{"no kind in a class", classOf("config: [{}]"), "spec.config[0].opaque: Required value"},
		{"driver", claimOf("config: [{opaque: {driver: '', parameters: {}}}, {opaque: {driver: a_b, parameters: {}}}]"),
			"spec.devices.config[0].opaque.driver: Required value\n" +
				`spec.devices.config[1].opaque.driver: Invalid value: "a_b": ` + subdomainRule},
		{"no object", claimOf("config: [{opaque: {driver: d, parameters: [1]}}, {opaque: {driver: d, parameters: text}}, {opaque: {driver: d}}]"),
			`spec.devices.config[0].opaque.parameters: Invalid value: "[1]": must be a JSON object
spec.devices.config[1].opaque.parameters: Invalid value: "\"text\"": must be a JSON object
spec.devices.config[2].opaque.parameters: Required value`},
		{"too large", claimOf("config: [{opaque: {driver: d, parameters: {x: " + large + "}}}]"),
			"spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"},
		{"requests", claimOf("config: [{requests: [z], opaque: {driver: d, parameters: {}}}]"),
			`spec.devices.config[0].requests[0]: Invalid value: "z": must be the name of a request in the claim, or request/subrequest`},
		{"too many", claimOf("config: [" + listOf(33, "{opaque: {driver: d, parameters: {}}}") + "]"),
			"spec.devices.config: Too many: 33: must have at most 32 items"},
		{"too many in a class", classOf("config: [" + listOf(33, "{opaque: {driver: d, parameters: {}}}") + "]"),
			"spec.config: Too many: 33: must have at most 32 items"},
	})
}

func TestClaimStatus(t *testing.T) {
	checkRules(t, []rule{
		{"fine", statusOf("reservedFor: [{resource: pods, name: p, uid: u}], allocation: {devices: {results: [{request: a, driver: d, pool: p, device: x}], " +
			"config: [{source: FromClass, requests: [a], opaque: {driver: d, parameters: {}}}]}}"), ""},
		{"most consumers", statusOf("allocation: {}, reservedFor: [" + listOf(256, "{resource: pods, name: p%d, uid: u%d}") + "]"), ""},
		{"too many consumers", statusOf("allocation: {}, reservedFor: [" + listOf(257, "{resource: pods, name: p%d, uid: u%d}") + "]"),
			"status.reservedFor: Too many: 257: must have at most 256 items"},
		{"consumers", statusOf("allocation: {}, reservedFor: [{resource: '', name: '', uid: ''}, {resource: pods, name: a, uid: u}, {resource: pods, name: b, uid: u}]"),
			`status.reservedFor[0].resource: Required value
status.reservedFor[0].name: Required value
status.reservedFor[0].uid: Required value
status.reservedFor[2].uid: Duplicate value: "u"`},
		{"too many results", statusOf("allocation: {devices: {results: [" + listOf(33, "{request: a, driver: d, pool: p, device: x%d}") + "]}}"),
			"status.allocation.devices.results: Too many: 33: must have at most 32 items"},
		{"results", statusOf("allocation: {devices: {results: [{request: z, driver: '', pool: p//q, device: X, consumedCapacity: {c: -1}}]}}"),
			`status.allocation.devices.results[0].request: Invalid value: "z": must be the name of a request in the claim, or request/subrequest
status.allocation.devices.results[0].driver: Required value
status.allocation.devices.results[0].pool: Invalid value: "p//q": must be DNS subdomains separated by slashes
status.allocation.devices.results[0].device: Invalid value: "X": ` + labelRule},
		{"what a result has of its device", statusOf("allocation: {devices: {results: [{request: a, driver: d, pool: p, device: x, shareID: u, tolerations: [{}, {operator: In}], bindingConditions: [r], skipNodeOperations: [Reboot]}]}, nodeSelector: {nodeSelectorTerms: []}}"),
			`status.allocation.devices.results[0].tolerations[1].operator: Unsupported value: "In": supported values: "Equal", "Exists"
status.allocation.devices.results[0].shareID: Invalid value: "u": must be a lowercase UUID in 8-4-4-4-12 format
status.allocation.devices.results[0].skipNodeOperations[0]: Unsupported value: "Reboot": supported values: "NodePrepareResources", "NodeUnprepareResources", "*"
status.allocation.devices.results[0].bindingFailureConditions: Required value: must be set together with bindingConditions
status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one term`},
		{"consumers of what is not allocated", parse[resourceapi.ResourceClaim]("{metadata: {name: c}, status: {reservedFor: [{resource: pods, name: p, uid: u}]}}"), "status.reservedFor: Forbidden: needs an allocation"},
		{"sources of configs", statusOf("allocation: {devices: {config: [{opaque: {driver: d, parameters: {}}}, {source: FromPod, opaque: {driver: d, parameters: {}}}]}}"),
			`status.allocation.devices.config[0].source: Required value
status.allocation.devices.config[1].source: Unsupported value: "FromPod": supported values: "FromClass", "FromClaim"`},
		{"configs", statusOf("allocation: {devices: {config: [{source: FromClaim, requests: [z], opaque: {driver: d, parameters: 1}}]}}"),
			`status.allocation.devices.config[0].requests[0]: Invalid value: "z": must be the name of a request in the claim, or request/subrequest
status.allocation.devices.config[0].opaque.parameters: Invalid value: "1": must be a JSON object`},
		{"too many configs", statusOf("allocation: {devices: {config: [" + listOf(65, "{source: FromClaim, opaque: {driver: d, parameters: {}}}") + "]}}"),
			"status.allocation.devices.config: Too many: 65: must have at most 64 items"},
	})
}

func TestPodClaims(t *testing.T) {
	checkRules(t, []rule{
		{"fine", podOf("containers: [], resourceClaims: [{name: a, resourceClaimName: c}, {name: b, resourceClaimTemplateName: t}]"), ""},
		{"a name twice", podOf("containers: [], resourceClaims: [{name: a, resourceClaimName: c}, {name: a, resourceClaimName: c}]"),
			`spec.resourceClaims[1].name: Duplicate value: "a"`},
		{"names of objects", podOf("containers: [], resourceClaims: [{name: a, resourceClaimName: C}, {name: b, resourceClaimTemplateName: ''}]"),
			`spec.resourceClaims[0].resourceClaimName: Invalid value: "C": ` + subdomainRule + `
spec.resourceClaims[1].resourceClaimTemplateName: Required value`},
		{"claims of containers", podOf("containers: [{name: m, resources: {claims: [{name: a}, {name: a, request: r}, {name: b, request: r}, {name: b, request: s}, {name: b, request: R}]}}], resourceClaims: [{name: a, resourceClaimName: c}, {name: b, resourceClaimName: d}]"),
			`spec.containers[0].resources.claims[1]: Duplicate value: "a"
spec.containers[0].resources.claims[4].request: Invalid value: "R": ` + labelRule},
		{"resources", podOf("containers: [{name: m, resources: {requests: {gpu: 1, cpu: 500m, memory: 1Gi, ephemeral-storage: 0}, limits: {requests.x/y: 1, a/b/c: 1, a.kubernetes.io/B: 1, hugepages-2Mi: 3Mi, hugepages-x: 1, example.com/gpu: 1}}}]"),
			`spec.containers[0].resources.limits[a/b/c]: Invalid value: "a/b/c": ` + keyForm + `
spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": must be a multiple of the size of pages, as in hugepages-2Mi
spec.containers[0].resources.limits[hugepages-x]: Invalid value: "1": must be a multiple of the size of pages, as in hugepages-2Mi
spec.containers[0].resources.limits[requests.x/y]: Invalid value: "requests.x/y": must not be in a domain of Kubernetes, nor begin with requests.
spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": is no resource of Kubernetes; any other must include a domain, as in example.com/gpu`},
		{"neither", podOf("containers: [], resourceClaims: [{name: a}]"),
			`spec.resourceClaims[0]: Invalid value: "a": must set exactly one of resourceClaimName and resourceClaimTemplateName`},
	})
}

func TestExtendedResourceNames(t *testing.T) {
	checkRules(t, []rule{
		{"fine", classOf("extendedResourceName: example.com/gpu"), ""},
		{"no domain", classOf("extendedResourceName: gpu"), `spec.extendedResourceName: Invalid value: "gpu": must include a domain, as in example.com/gpu`},
		{"of Kubernetes", classOf("extendedResourceName: x.kubernetes.io/gpu"),
			`spec.extendedResourceName: Invalid value: "x.kubernetes.io/gpu": must not be in a domain of Kubernetes, nor begin with requests.`},
		{"capitals in the domain", classOf("extendedResourceName: A.example.com/gpu"), `spec.extendedResourceName: Invalid value: "A.example.com/gpu": prefix part ` + subdomainRule},
	})
}
