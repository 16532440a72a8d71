// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dray-project/dray/devmgmt/expression"
)

// resolve knows the attributes of the driver d.example.com, of which memory is an amount.
func resolve(name string) (expression.Place, error) {
	if domain, id, qualified := strings.Cut(name, "/"); qualified {
		return expression.Place{Domain: domain, ID: id}, nil
	}
	if strings.Contains(name, "-") {
		return expression.Place{}, errors.New("no identifier")
	}
	return expression.Place{Domain: "d.example.com", ID: name, Capacity: name == "memory"}, nil
}

func name(p expression.Place) (string, error) {
	if p.Domain != "d.example.com" {
		return p.Domain + "/" + p.ID, nil
	}
	return p.ID, nil
}

func TestRewrite(t *testing.T) {
	for _, c := range []struct{ prototype, v1 string }{
		{`device.model == "a100"`, `device.attributes["d.example.com"].model == "a100"`},
		{`has(device.model) && device.numa < 2`, `has(device.attributes["d.example.com"].model) && device.attributes["d.example.com"].numa < 2`},
		{`"model" in device`, `"model" in device.attributes["d.example.com"]`},
		{`device["x.example.org/rack"] == "r1"`, `device.attributes["x.example.org"].rack == "r1"`},
		{`device.memory.compareTo(quantity("40Gi")) >= 0`, `device.capacity["d.example.com"].memory.compareTo(quantity("40Gi")) >= 0`},
		{`device.?model.orValue("") == "b"`, `device.attributes["d.example.com"].?model.orValue("") == "b"`},
		{`["a", "b"].exists(v, v == device.model)`, `["a", "b"].exists(v, v == device.attributes["d.example.com"].model)`},
		{`"device.model" == device.model`, `"device.model" == device.attributes["d.example.com"].model`},
		{`{"device": device.model}["device"] == "x"`, `{"device": device.attributes["d.example.com"].model}["device"] == "x"`},
		{`device.in == 1`, ``}, // a keyword
		{`device["in"] == 1`, `device.attributes["d.example.com"]["in"] == 1`},
		{`device.attributes == "x"`, `device.attributes["d.example.com"].attributes == "x"`},
		{`(device.a || device.b) && !device.c`, `(device.attributes["d.example.com"].a || device.attributes["d.example.com"].b) && !device.attributes["d.example.com"].c`},
	} {
		got, err := expression.ToV1(c.prototype, resolve)
		if c.v1 == "" {
			if err == nil {
				t.Errorf("%s: became %s, want an error", c.prototype, got)
			}
			continue
		}
		if err != nil || got != c.v1 {
			t.Errorf("%s:\ngot  %s, error %v\nwant %s", c.prototype, got, err, c.v1)
			continue
		}
		back, err := expression.FromV1(got, name)
		if err != nil || back != c.prototype {
			t.Errorf("%s: came back as %s, error %v", c.prototype, back, err)
		}
		if normal, err := expression.Normal(c.prototype); err != nil || normal != c.prototype {
			t.Errorf("%s: normal form %s, error %v", c.prototype, normal, err)
		}
	}
}

func TestNormal(t *testing.T) {
	for text, want := range map[string]string{
		`device['model']=='a'`:       `device.model == "a"`,
		`((device.x))  // a comment`: `device.x`,
		`has(device.x)==true`:        `has(device.x) == true`,
	} {
		if got, err := expression.Normal(text); err != nil || got != want {
			t.Errorf("%s: got %s, error %v, want %s", text, got, err, want)
		}
	}
}

func TestToV1Refuses(t *testing.T) {
	for text, want := range map[string]string{
		`device == device`:                     "device is used for something else",
		`device.exists(k, k == "x")`:           "device is used for something else",
		`[1].exists(device, device > 0)`:       "device is used for something else",
		`device["a" + "b"] == 1`:               "device is used for something else",
		`.device.model == "a"`:                 "",
		`device["sriov-type"] == "vf"`:         "attribute sriov-type: no identifier",
		`device["a-b"] == 1 && device["c-d"]`:  "attribute c-d",
		`device.model = "a"`:                   "line 1, column 14",
		`1 +`:                                  "line 1",
		strings.Repeat("(", 400) + "1":         "recursion limit",
		`"` + strings.Repeat("x", 11000) + `"`: "at most 10240",
	} {
		got, err := expression.ToV1(text, resolve)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %s, error %v, want %q", text, got, err, want)
		}
	}
}

func TestFromV1Refuses(t *testing.T) {
	for _, text := range []string{
		`device.driver == "d.example.com"`,
		`device.allowMultipleAllocations`,
		`"d.example.com" in device.attributes`,
		`device.attributes[device.driver].x == 1`,
		`device.attributes["d.example.com"].size() == 1`,
	} {
		if got, err := expression.FromV1(text, name); err == nil {
			t.Errorf("%s: became %s", text, got)
		}
	}
}

// FuzzRewrite: what is rewritten comes back, and the way there and back changes nothing more.
func FuzzRewrite(f *testing.F) {
	for _, text := range []string{
		`device.model == "a100" && has(device.numa)`, `"x" in device ? device.x : device["y/z"]`,
		`[device.a, {device.b: device.?c}].map(x, x)`, `device.x.y[device.z](device.w)`, `cel.bind(v, device.x, v > 1)`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		normal, err := expression.Normal(text)
		if err != nil {
			return
		}
		there, err := expression.ToV1(text, resolve)
		if err != nil {
			return
		}
		back, err := expression.FromV1(there, name)
		if err != nil {
			t.Fatalf("%q became %q, which does not come back: %v", text, there, err)
		}
		if back != normal {
			t.Fatalf("%q became %q, which came back as %q", text, there, back)
		}
	})
}
