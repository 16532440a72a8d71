// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

// maxExplained is the maximum size of the explanations in a file, in bytes.
const maxExplained = 32 << 20

// kept is the data of the page in a file.
type kept struct {
	Picture *Picture          `json:"picture"`
	Answers []json.RawMessage `json:"answers"`
	// Usage has reports by the values of dray usage --by.
	Usage map[usage.By]*usage.Report `json:"usage"`
}

// WriteFile writes the page as one file that needs no server.
func WriteFile(out io.Writer, p *Picture) error {
	data := kept{Picture: p, Answers: []json.RawMessage{}, Usage: p.usages()}
	size := 0
	for i, answer := range p.answers {
		encoded, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("explanation of %s: %w", answer.Subject, err)
		}
		if size += len(encoded); size > maxExplained {
			short := *p
			short.Notes = append(short.Notes[:len(short.Notes):len(short.Notes)], fmt.Sprintf("The file has the first %d explanations of %s.", i, render.Count(len(p.answers), "explanation")))
			data.Picture = &short
			break
		}
		data.Answers = append(data.Answers, encoded)
	}
	// The encoder escapes <, > and &, so that no text can end the script element.
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	page, err := web.ReadFile("web/index.html")
	if err != nil {
		return err
	}
	script, err := web.ReadFile("web/dist/app.js")
	if err != nil {
		return err
	}
	style, err := web.ReadFile("web/dist/app.css")
	if err != nil {
		return err
	}
	script, style = bytes.TrimSpace(script), bytes.TrimSpace(style)
	head := fmt.Sprintf(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'">`,
		digest(script), digest(style))
	page = bytes.Replace(page, []byte(`<link rel="stylesheet" href="app.css">`), bytes.Join([][]byte{[]byte(head), []byte("<style>"), style, []byte("</style>")}, nil), 1)
	page = bytes.Replace(page, []byte(`<script type="module" src="app.js"></script>`), bytes.Join([][]byte{
		[]byte(`<script type="application/json" id="kept">`), encoded, []byte(`</script>`), []byte("\n<script type=\"module\">"), script, []byte("</script>"),
	}, nil), 1)
	page = bytes.Replace(page, []byte("<link rel=\"icon\" href=\"icon.svg\">\n"), nil, 1)
	page = bytes.Replace(page, []byte("<title>Dray</title>"), []byte("<title>"+template.HTMLEscapeString("Dray: "+p.Source)+"</title>"), 1)
	_, err = out.Write(page)
	return err
}

// digest returns the hash of an inline script or style for the Content-Security-Policy.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
