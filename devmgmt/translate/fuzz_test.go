// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
	"github.com/dray-project/dray/devmgmt/validation"
)

// readPrototype files valid objects of the prototype that are the items of a List, with their
// defaults, and takes everything else for configuration.
func readPrototype(content []byte) translate.Prototype {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	var in translate.Prototype
	if json.Unmarshal(content, &list) != nil {
		return in
	}
	for _, raw := range list.Items {
		object := &unstructured.Unstructured{}
		if json.Unmarshal(raw, &object.Object) != nil {
			continue
		}
		switch object.GetKind() {
		case "DevicePool":
			pool := &v1alpha1.DevicePool{}
			if json.Unmarshal(raw, pool) == nil {
				v1alpha1.SetPoolDefaults(pool)
				if len(validation.Pool(pool)) == 0 {
					in.Pools = append(in.Pools, pool)
				}
			}
		case "DeviceClass":
			class := &v1alpha1.DeviceClass{}
			if json.Unmarshal(raw, class) == nil && len(validation.Class(class)) == 0 {
				in.Classes = append(in.Classes, class)
			}
		case "DeviceClaim":
			claim := &v1alpha1.DeviceClaim{}
			if json.Unmarshal(raw, claim) == nil {
				v1alpha1.SetClaimDefaults(claim)
				if len(validation.Claim(claim)) == 0 {
					in.Claims = append(in.Claims, claim)
				}
			}
		default:
			in.Referents = append(in.Referents, object)
		}
	}
	return in
}

// seed makes the documents of the files in a folder one List.
func seed(f *testing.F, folder string) []byte {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("%s: %d files, error %v", folder, len(paths), err)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			f.Fatal(err)
		}
		documents := utilyaml.NewDocumentDecoder(file)
		content := make([]byte, 1<<20)
		for {
			n, err := documents.Read(content)
			if err != nil {
				break
			}
			if raw, err := yaml.YAMLToJSON(content[:n]); err != nil {
				f.Fatal(err)
			} else if string(raw) != "null" {
				list.Items = append(list.Items, raw)
			}
		}
		if err := file.Close(); err != nil {
			f.Fatal(err)
		}
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		f.Fatal(err)
	}
	return encoded
}

// FuzzTranslate: valid objects are translated or refused, always in the same way, without
// modifying them. What is translated comes back, and is the same when it goes again.
func FuzzTranslate(f *testing.F) {
	for _, folder := range []string{"devmgmt-partitions", "devmgmt-sharing", "devmgmt-numa", "devmgmt-gpu-type", "devmgmt-elastic-nics", "devmgmt-memory", "devmgmt-preferred-numa"} {
		f.Add(seed(f, filepath.Join("../../examples", folder)))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		in := readPrototype(content)
		before := fuzzText(t, in)
		out, reasons := translate.ToV1(in)
		if fuzzText(t, in) != before {
			t.Fatal("the input was modified")
		}
		if again, _ := translate.ToV1(in); fuzzText(t, again) != fuzzText(t, out) {
			t.Fatal("translating it twice gives two answers")
		}
		if _, reasons := translate.ToExtended(in); fuzzText(t, in) != before {
			t.Fatalf("the input was modified: %v", reasons)
		}
		back, lost := translate.FromV1(out)
		if len(reasons) > 0 || duplicates(in) {
			return
		}
		if len(lost) > 0 {
			t.Fatalf("it does not come back: %v\n%s", lost, fuzzText(t, out))
		}
		again, reasons := translate.ToV1(back)
		if len(reasons) > 0 || fuzzText(t, again) != fuzzText(t, out) {
			t.Fatalf("first\n%s\nthen\n%s\n%v", fuzzText(t, out), fuzzText(t, again), reasons)
		}
	})
}

// duplicates reports whether objects share a name, which no reader lets pass.
func duplicates(in translate.Prototype) bool {
	names := make(map[string]bool)
	n := 0
	for _, pool := range in.Pools {
		names["pool "+pool.Name], n = true, n+1
	}
	for _, class := range in.Classes {
		names["class "+class.Name], n = true, n+1
	}
	for _, claim := range in.Claims {
		names["claim "+claim.Namespace+"/"+claim.Name], n = true, n+1
	}
	for _, object := range in.Referents {
		names[object.GroupVersionKind().String()+" "+object.GetNamespace()+"/"+object.GetName()], n = true, n+1
	}
	return len(names) < n
}

func fuzzText(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
